"""A producer in a second interpreter of the process, as mod_wsgi runs one for each application."""

from __future__ import annotations

from pyproducer import hotpath
from tests.support.second_interpreter import run_with_second_interpreter


def test_send_when_it_is_in_a_second_interpreter_then_records_are_stored_and_one_warning_says_why() -> None:
    done = run_with_second_interpreter("""
        from pyproducer.broker import EmbeddedBroker
        from pyproducer.testing import read_topic
        with EmbeddedBroker(topics={"t": 1}) as broker:
            in_second_interpreter(f'''
        import logging
        logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
        from pyproducer import KafkaProducer
        for value in (b"1", b"2"):
            with KafkaProducer({{"bootstrap.servers": {broker.bootstrap_servers!r}}}) as producer:
                assert producer.send("t", value, headers=[("h", b"x")]).result(600).offset >= 0
                producer.send_batch("t", [value] * 3).result(600).raise_on_error()
        ''')
            print(*[record.value.decode() for record in read_topic(broker.bootstrap_servers, "t")])
        """)
    assert done.returncode == 0, done.stderr
    *said, stored = done.stdout.splitlines()
    assert stored.split() == ["1"] * 4 + ["2"] * 4
    if hotpath.IMPL == "native":
        (warning,) = said
        assert warning.startswith("WARNING The compiled build of pyproducer's per-record code cannot be loaded (")
        assert "pure Python runs" in warning
