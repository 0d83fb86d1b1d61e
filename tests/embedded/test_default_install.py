"""What `pip install pyproducer` alone must do, with no extra beside it: each codec, columns, the command, an example.

Runs like any test, and once more where it can fail for want of a package: in an empty environment that holds the wheel
and what it installs (tests/environments.py). The other tests' own packages would hide what is missing there.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pyproducer
from pyproducer import KafkaProducer
from pyproducer.broker import EmbeddedBroker
from pyproducer.protocol.apis import ApiKeys
from pyproducer.record.batch_writer import build_batch
from pyproducer.testing import read_topic
from tests.support.patience import GIVE_UP_S, PROGRAM_S
from tests.support.raw_client import RawClient, metadata_body

ROOT = Path(__file__).resolve().parents[2]
IS_DEFAULT_INSTALL = os.environ.get("PYPRODUCER_TEST_ENVIRONMENT") == "default"
ELSEWHERE = "127.0.0.2"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(separate_process=True) as broker:
        yield broker


@pytest.mark.parametrize("codec", CODECS)
def test_each_codec_is_written_stored_and_read_back(broker: EmbeddedBroker, topic_name: str, codec: str) -> None:
    values = [b"value %d" % number * 20 for number in range(50)]
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec}) as producer:
        for value in values:
            producer.send(topic_name, value, partition=0)
    assert [record.value for record in read_topic(broker.bootstrap_servers, topic_name)] == values


def test_a_request_with_batches_of_all_codecs_is_stored_whole(broker: EmbeddedBroker, topic_name: str) -> None:
    """A codec whose package was missing failed the whole request, of which another partition was stored already."""
    assert broker.create_topic(topic_name, len(CODECS))
    batches = [{"index": index, "records": bytes(build_batch([(1_700_000_000_000, b"k", b"paid" * 100, ())],
                                                             compression=codec))}
               for index, codec in enumerate(CODECS)]
    with RawClient(("127.0.0.1", broker.port)) as client:
        answer = client.request(ApiKeys.PRODUCE, 9, {"acks": -1, "timeout_ms": 5000, "topic_data": [
            {"name": topic_name, "partition_data": batches}]})
    assert [(partition["error_code"], partition["base_offset"])
            for partition in answer["responses"][0]["partition_responses"]] == [(0, 0)] * len(CODECS)
    assert [record.value for record in broker.records(topic_name)] == [b"paid" * 100] * len(CODECS)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_topic_of_each_codec_recompresses_what_comes(broker: EmbeddedBroker, topic_name: str, codec: str) -> None:
    with EmbeddedBroker(topics={topic_name: 1}, separate_process=True,
                        config={"compression.type": codec}) as recompressing:
        with KafkaProducer({"bootstrap.servers": recompressing.bootstrap_servers}) as producer:
            producer.send(topic_name, b"paid" * 100)
        assert [record.value for record in recompressing.records(topic_name)] == [b"paid" * 100]


def test_columns_go_as_lists_without_pyarrow(broker: EmbeddedBroker, topic_name: str) -> None:
    with KafkaProducer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        metadata = producer.send_batch(topic_name, [b"a", b"b", None], keys=[b"1", b"2", b"3"]).result(GIVE_UP_S)
    assert not metadata.errors
    stored = {record.key: record.value for record in read_topic(broker.bootstrap_servers, topic_name)}
    assert stored == {b"1": b"a", b"2": b"b", b"3": None}


def test_the_command_starts_a_broker() -> None:
    process = subprocess.Popen([sys.executable, "-m", "pyproducer", "broker", "--port", "0", "--topic", "orders:2"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        address = re.search(r"127\.0\.0\.1:\d+", told)
        assert address, told
        with KafkaProducer({"bootstrap.servers": address.group()}) as producer:
            assert producer.send("orders", b"paid").result(GIVE_UP_S).topic == "orders"
    finally:
        process.terminate()
        process.communicate(timeout=PROGRAM_S)


@contextmanager
def command(*arguments: str) -> Iterator[dict[str, int]]:
    """Run `python -m pyproducer broker` as a container does; give the ports of the hosts that it says it is at."""
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True)
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        found = re.findall(r"[A-Z]+://([a-z0-9.]+):(\d+)", told)
        assert found, told
        yield {host: int(port) for host, port in found}
    finally:
        process.terminate()  # what `docker stop` does
        rest, _ = process.communicate(timeout=PROGRAM_S)
    assert (process.returncode, rest) == (0, "")


def block(path: str, kind: str) -> list[str]:
    """Return the lines of the first block of this kind in a document."""
    found = re.search(rf"^ *```{kind}\n(.*?)^ *```$", (ROOT / path).read_text("ascii"), re.DOTALL | re.MULTILINE)
    assert found is not None, path
    return [line.strip() for line in found.group(1).splitlines()]


@pytest.mark.parametrize("path", ["README.md", "docs/containers.md"])
def test_the_image_of_the_documents_serves_whoever_knows_its_name_alone(path: str) -> None:
    """--host 0.0.0.0 told clients 0.0.0.0: no container and no second machine could use it."""
    base, copy, install, start = block(path, "dockerfile")
    assert re.fullmatch(r"FROM python:3\.1\d-slim", base)
    # Until it is published; then it is "RUN pip install pyproducer", without the line before.
    assert (copy, install.partition("#")[0].strip()) == ("COPY . /src", "RUN pip install /src")
    entry_point = json.loads(start.removeprefix("ENTRYPOINT "))
    assert entry_point[:1] + entry_point[-2:] == ["python", "--advertised-host", "kafka"]
    # Nobody here knows `kafka`: another address of loopback stands for another container's name for it.
    with command(*entry_point[1:-1], ELSEWHERE, "--port", "0", "--brokers", "2", "--topic", "orders:2") as ports:
        assert list(ports) == [ELSEWHERE]
        with RawClient((ELSEWHERE, ports[ELSEWHERE])) as client:
            brokers = client.request(ApiKeys.METADATA, 9, metadata_body("orders"))["brokers"]
            coordinator = client.request(ApiKeys.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["billing"]})
        assert {node["host"] for node in (*brokers, *coordinator["coordinators"])} == {ELSEWHERE}
        with KafkaProducer({"bootstrap.servers": f"{ELSEWHERE}:{ports[ELSEWHERE]}"}) as producer:
            for partition in (0, 1):  # one on each broker
                assert producer.send("orders", b"paid", partition=partition).result(GIVE_UP_S).offset == 0


def test_the_two_listeners_of_the_documents_tell_each_side_its_own_address(tmp_path: Path) -> None:
    text = re.sub(r":\d+", ":0", "\n".join(block("docs/containers.md", "properties")))
    path = tmp_path / "server.properties"
    path.write_text(text.replace("kafka", ELSEWHERE).replace("/data", f"{tmp_path}/data"), "ascii")
    with command("-m", "pyproducer", "broker", "--config", str(path), "--topic", "orders") as ports:
        assert sorted(ports) == [ELSEWHERE, "localhost"]
        for host, port in ports.items():
            with RawClient((host, port)) as client:
                brokers = client.request(ApiKeys.METADATA, 9, metadata_body())["brokers"]
            assert [(node["host"], node["port"]) for node in brokers] == [(host, port)]
            with KafkaProducer({"bootstrap.servers": f"{host}:{port}"}) as producer:
                producer.send("orders", b"paid").result(GIVE_UP_S)
    assert (tmp_path / "data" / "orders-0").is_dir()


def test_the_quickstart_runs_from_the_installation() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-m", "examples.quickstart"], cwd=ROOT, capture_output=True,
                          text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "stored in orders-" in done.stdout


def test_the_interface_of_confluent_kafka_needs_no_package_of_theirs(broker: EmbeddedBroker, topic_name: str) -> None:
    code = ("import sys; from pyproducer.compat.confluent_kafka import Producer; "
            "producer = Producer({'bootstrap.servers': sys.argv[1]}); "
            "producer.produce(sys.argv[2], 'paid', on_delivery=lambda error, message: print(error, message.value())); "
            "print(producer.flush(), producer.close(), 'confluent_kafka' in sys.modules)")
    assert broker.create_topic(topic_name, 1)
    told = subprocess.run([sys.executable, "-W", "error", "-c", code, broker.bootstrap_servers, topic_name],
                          capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert told.stdout.split() == ["None", "b'paid'", "0", "True", "False"], told.stderr
    assert [record.value for record in read_topic(broker.bootstrap_servers, topic_name)] == [b"paid"]


if IS_DEFAULT_INSTALL:
    def test_nothing_is_installed_but_the_wheel_and_what_it_asks_for() -> None:
        wanted = {"pip", "setuptools", "pyproducer"}  # the first two come with every new environment
        for requirement in importlib.metadata.requires("pyproducer") or ():
            if "extra ==" not in requirement:
                wanted.add(re.split(r"[^A-Za-z0-9_.-]", requirement)[0].lower())
        folder = Path(pyproducer.__file__).resolve().parents[1]
        found = {dist.metadata["Name"].lower() for dist in importlib.metadata.distributions(path=[str(folder)])}
        # Packages that a dependency brings along are lawful; an extra of ours is not.
        assert wanted <= found
        extras = {"pyarrow", "pyspark", "pytest", "confluent-kafka", "kafka-python", "aiokafka", "cryptography", "tqdm"}
        assert not found & extras
        assert ROOT not in Path(pyproducer.__file__).resolve().parents

    def test_pytests_plugin_is_installed_and_brings_nothing_of_ours_along() -> None:
        code = ("import sys; from importlib.metadata import entry_points; "
                "[found] = entry_points(group='pytest11', name='pyproducer'); found.load(); "
                "print([name for name in sys.modules if name.partition('.')[0] == 'pyproducer'])")
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PROGRAM_S,
                              check=True)
        assert told.stdout.strip() == "[]"
