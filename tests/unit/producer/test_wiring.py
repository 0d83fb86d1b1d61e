"""What wiring says and refuses."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pyproducer import ConfigError, IllegalStateError, KafkaProducer, ProducerConfig, hotpath
from pyproducer.common import reinstall
from pyproducer.common.backoff import ExponentialBackoff
from pyproducer.network.channel_builder import (
    ChannelBuilder,
    PlaintextChannelBuilder,
    client_channel_builder,
)
from pyproducer.network.selector import Selector
from pyproducer.network.ssl_channel_builder import SslChannelBuilder
from pyproducer.network.wakeup import Wakeup
from pyproducer.observe import otlp
from pyproducer.producer import wiring
from pyproducer.producer.surroundings import Surroundings
from pyproducer.record.compression import Compressor
from pyproducer.sender import telemetry
from pyproducer.testing import MockProducer

PROPS = {"bootstrap.servers": "127.0.0.1:1"}


def test_a_missing_twin_is_said_once(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(hotpath, "IS_FALLBACK", True)
    monkeypatch.setattr(reinstall, "installed_elsewhere", lambda _folder: None)
    monkeypatch.setattr(hotpath, "__file__", str(tmp_path / "__init__.py"))
    wiring._say_fallback_once.cache_clear()
    for _ in range(2):
        KafkaProducer(PROPS).close()
    assert caplog.text.count("The compiled build of pyproducer's per-record code is not there") == 1


def test_constructor_when_a_login_is_incomplete_then_it_is_refused_before_anything_starts():
    with pytest.raises(ConfigError, match=r"sasl\.mechanism"):
        KafkaProducer({**PROPS, "security.protocol": "SASL_PLAINTEXT"})


def test_an_explicit_linger_is_kept_for_callers_who_wait():
    with KafkaProducer(PROPS) as producer:
        assert not producer._runtime.accumulator.lingers_for_waiters
    with KafkaProducer({**PROPS, "linger.ms": 5}) as producer:
        assert producer._runtime.accumulator.lingers_for_waiters


@pytest.mark.parametrize(("settings", "grown_kib", "compressed_kib"), [
    ({}, 256, 128), ({"compression.type": "lz4"}, 256, 128), ({"compression.type": "zstd"}, 128, 128),
    ({"max.request.size": 400 * 1024}, 100, 128), ({"max.request.size": 100 * 1024}, 25, 100), ({"acks": "0"}, 16, 16),
    ({"batch.size": 64 * 1024, "compression.type": "zstd"}, 64, 128),
    ({"batch.size": 200 * 1024, "compression.type": "zstd"}, 200, 200),
    ({"batch.size": 64 * 1024, "max.request.size": 32 * 1024}, 64, 64)])
def test_batches_when_they_may_grow_then_as_far_as_codec_request_and_acks_allow(
        settings: dict[str, Any], grown_kib: int, compressed_kib: int) -> None:
    with KafkaProducer({**PROPS, "enable.idempotence": False, **settings}) as producer:
        accumulator = producer._runtime.accumulator
        assert (accumulator.largest_batch_bytes, accumulator._largest_uncompressed_bytes) == (
            grown_kib * 1024, compressed_kib * 1024)


@pytest.mark.parametrize(("protocol", "expected"), [("PLAINTEXT", PlaintextChannelBuilder), ("SSL", SslChannelBuilder)])
def test_security_protocol_decides_how_connections_are_made(protocol: str, expected: type[ChannelBuilder]) -> None:
    config = ProducerConfig({**PROPS, "security.protocol": protocol})
    assert type(client_channel_builder(config)) is expected


def test_network_when_settings_are_given_then_each_comes_to_the_part_that_it_is_for(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Many settings are a number of ms: one in the place of another is seen by no type, and by users after minutes."""
    given: dict[str, Any] = {}

    def noting(kind: Any) -> Any:
        def make(*parts: Any, **settings: Any) -> Any:
            given[kind.__name__] = settings
            return kind(*parts, **settings)
        return make

    monkeypatch.setattr(wiring, "Surroundings", lambda: Surroundings(make_selector=noting(Selector)))
    for name in ("NetworkClient", "ProducerMetadata", "RecordAccumulator"):
        monkeypatch.setattr(wiring, name, noting(getattr(wiring, name)))
    KafkaProducer({
        **PROPS, "connections.max.idle.ms": 11_000, "metadata.max.idle.ms": 12_000, "metadata.max.age.ms": 13_000,
        "reconnect.backoff.ms": 14, "reconnect.backoff.max.ms": 15, "retry.backoff.ms": 16, "retry.backoff.max.ms": 17,
        "socket.connection.setup.timeout.ms": 18_000, "socket.connection.setup.timeout.max.ms": 19_000,
        "request.timeout.ms": 20_000, "linger.ms": 21, "delivery.timeout.ms": 22_000, "batch.size": 23_000,
        "send.buffer.bytes": 24_000, "receive.buffer.bytes": 25_000, "client.id": "somebody",
        "metadata.recovery.rebootstrap.trigger.ms": 26_000, "max.in.flight.requests.per.connection": 3}).close()
    selector, client = given["Selector"], given["NetworkClient"]
    metadata, accumulator = given["ProducerMetadata"], given["RecordAccumulator"]
    assert selector["connections_max_idle_ms"] == 11_000
    assert (metadata["metadata_max_idle_ms"], metadata["metadata_max_age_ms"]) == (12_000, 13_000)
    assert waits_of(client["reconnect_backoff"]) == (14, 15)
    assert waits_of(metadata["refresh_backoff"]) == waits_of(accumulator["retry_backoff"]) == (16, 17)
    assert waits_of(client["connection_setup_timeout"]) == (18_000, 19_000)
    assert (accumulator["linger_ms"], accumulator["delivery_timeout_ms"]) == (21, 22_000)
    assert accumulator["batch_size_bytes"] == 23_000
    assert {name: client[name] for name in (
        "request_timeout_ms", "send_buffer_bytes", "receive_buffer_bytes", "client_id",
        "metadata_recovery_rebootstrap_trigger_ms", "max_in_flight_requests_per_connection")} == {
        "request_timeout_ms": 20_000, "send_buffer_bytes": 24_000, "receive_buffer_bytes": 25_000,
        "client_id": "somebody", "metadata_recovery_rebootstrap_trigger_ms": 26_000,
        "max_in_flight_requests_per_connection": 3}


def waits_of(backoff: ExponentialBackoff) -> tuple[int, int]:
    """Its first wait without jitter, and its longest."""
    return backoff.initial_ms, backoff.max_ms


@pytest.mark.parametrize("missing", ["opentelemetry", "opentelemetry.proto", "opentelemetry.proto.metrics",
                                     "opentelemetry.proto.metrics.v1"])
@pytest.mark.parametrize("wanted", [True, False])
def test_messages_of_telemetry_when_their_package_is_not_installed_then_nothing_is_pushed_and_who_wants_it_is_told(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, missing: str, wanted: bool) -> None:
    """Others' packages share the name opentelemetry: any part of it may be there."""
    for loaded in [name for name in sys.modules if name.startswith(f"{missing}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, missing, None)
    with (KafkaProducer({**PROPS, **({"enable.metrics.push": True} if wanted else {})}) as producer,
          pytest.raises(IllegalStateError, match="is not installed")):
        producer.client_instance_id(0)
    assert ("pip install 'pyproducer[telemetry]'" in caplog.text) is wanted


@pytest.mark.parametrize("wanted", [True, False])
def test_messages_of_telemetry_when_their_package_cannot_be_loaded_then_nothing_is_pushed_and_the_log_says_why(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wanted: bool) -> None:
    def load() -> None:
        raise TypeError("Descriptors cannot be created directly")

    monkeypatch.setattr(otlp, "is_available", lambda: True)
    monkeypatch.setattr(otlp, "load", load)
    with (caplog.at_level(logging.INFO),
          KafkaProducer({**PROPS, **({"enable.metrics.push": True} if wanted else {})}) as producer,
          pytest.raises(IllegalStateError, match="cannot be loaded")):
        producer.client_instance_id(0)
    (line,) = [record for record in caplog.records if "Descriptors cannot be created" in record.getMessage()]
    assert line.levelname == ("WARNING" if wanted else "INFO")


@pytest.mark.parametrize("error", [OSError, RuntimeError, AttributeError, TypeError])
def test_codec_when_its_package_is_broken_then_who_does_not_want_it_has_a_producer_all_the_same(
        monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[Exception]) -> None:
    compressor_for = telemetry.compressor_for

    def broken(name: str, level: int | None) -> Compressor:
        if name == "zstd":
            raise error("a symbol is missing")
        return compressor_for(name, level)

    monkeypatch.setattr(otlp, "is_available", lambda: True)
    monkeypatch.setattr(otlp, "load", lambda: None)
    monkeypatch.setattr(telemetry, "compressor_for", broken)
    with caplog.at_level(logging.INFO):
        KafkaProducer(PROPS).close()
    assert "zstd is not used for metrics: " in caplog.text


@pytest.mark.parametrize("module", ["coordinator", "transaction_admin"])
def test_messages_of_transactions_when_there_is_an_id_then_the_constructor_loads_them(
        monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """A fork while the sender thread loads one leaves a child in which the module's lock is held for ever."""
    name = f"pyproducer.protocol.messages.{module}"
    for props in ({}, {"transactional.id": "shop"}):
        monkeypatch.delitem(sys.modules, name, raising=False)
        KafkaProducer({**PROPS, **props}).close()
        assert (name in sys.modules) is bool(props)


class Part:
    """An interceptor, or a reporter; it may raise when it begins."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.closed_count = 0
        self._error = error

    def on_send(self, record: object) -> object:
        return record

    def init(self, read: object) -> None:
        if self._error is not None:
            raise self._error

    @property
    def is_closed(self) -> bool:
        return self.closed_count > 0

    def close(self) -> None:
        self.closed_count += 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), ValueError("no such gateway")])
def test_constructor_when_it_is_interrupted_at_its_end_then_what_it_has_made_is_closed(
        monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    wakeups: list[Wakeup] = []

    def make_wakeup() -> Wakeup:
        wakeups.append(Wakeup())
        return wakeups[0]

    monkeypatch.setattr(wiring, "Surroundings", lambda: Surroundings(make_wakeup=make_wakeup))
    interceptor, reporter = Part(), Part()
    with pytest.raises((type(error), ConfigError)):
        KafkaProducer({**PROPS, "interceptor.classes": [interceptor], "metric.reporters": [reporter, Part(error)]})
    assert interceptor.is_closed
    assert reporter.is_closed
    assert wakeups[0].receiver.fileno() == -1, "its descriptors are closed"


class Serializer(Part):
    def __call__(self, topic: object, headers: object, data: bytes) -> bytes:
        return data


@pytest.mark.parametrize("make", [KafkaProducer, MockProducer])
def test_constructor_when_a_part_cannot_be_made_then_those_before_it_are_closed(make: Callable[..., object]) -> None:
    """An interceptor that had begun a thread kept it, where the partitioner's name was mistyped."""
    key, value, interceptor = parts = Serializer(), Serializer(), Part()
    with pytest.raises(ConfigError, match="no_such"):
        make({**PROPS, "interceptor.classes": [interceptor], "partitioner.class": "no_such:Partitioner"}, key, value)
    assert [part.is_closed for part in parts] == [True] * 3
    with pytest.raises(ConfigError, match="no_such"):
        make({**PROPS, "interceptor.classes": [earlier := Part(), "no_such:Interceptor"]}, later := Serializer())
    assert (earlier.is_closed, later.is_closed) == (True, True)


@pytest.mark.parametrize(("make", "key"), [
    *((make, key) for make in (KafkaProducer, MockProducer)
      for key in ("key.serializer", "value.serializer", "interceptor.classes", "partitioner.class")),
    (KafkaProducer, "metric.reporters")])
@pytest.mark.parametrize("error", [ValueError("no such gateway"), KeyboardInterrupt()], ids=repr)
def test_constructor_when_a_part_that_it_made_cannot_begin_then_that_is_closed_too(
        make: Callable[..., object], key: str, error: BaseException) -> None:
    """What it had begun before it raised, as a thread, stayed."""
    made: list[Failing] = []

    class Failing(Serializer):
        def __init__(self) -> None:
            super().__init__(error)
            made.append(self)

        def partition(self, *_six: object) -> int:
            return 0

        def configure(self, *_props: object) -> None:
            if key != "metric.reporters":
                self.init(None)

    with pytest.raises((type(error), ConfigError)):
        make({**PROPS, key: [Failing] if key in {"interceptor.classes", "metric.reporters"} else Failing})
    assert [part.closed_count for part in made] == [1]


@pytest.mark.parametrize("make", [KafkaProducer, MockProducer])
@pytest.mark.parametrize("given", [{}, {"client.id": ""}, {"client.id": "app"}, {"transactional.id": "t"}])
def test_parts_when_they_are_configured_then_they_are_told_the_client_id_that_brokers_are(
        make: Callable[..., Any], given: dict[str, object]) -> None:
    """Where nobody had given one, as in most programs, an interceptor that names its numbers by it had none."""
    told: list[object] = []

    class Named(Serializer):
        def partition(self, *_six: object) -> int:
            return 0

        def configure(self, props: dict[str, object], *_is_key: object) -> None:
            told.append(props["client.id"])
            props.clear()

    parts: dict[str, object] = {"key.serializer": Named, "value.serializer": Named, "interceptor.classes": [Named],
                                "partitioner.class": Named}
    if make is KafkaProducer:
        parts["metric.reporters"] = [Named]
    with make({**PROPS, **given, **parts}) as producer:
        assert told == [producer.client_id] * len(parts)
        assert producer.config()["bootstrap.servers"] == PROPS["bootstrap.servers"]


@pytest.mark.parametrize("key", ["key.serializer", "interceptor.classes", "partitioner.class"])
def test_constructor_when_a_part_that_it_made_is_none_of_its_kind_then_it_is_closed(key: str) -> None:
    made: list[Other] = []

    class Other:
        is_closed = False
        partition = None  # it has one, and that cannot be called

        def __init__(self) -> None:
            made.append(self)

        def close(self) -> None:
            self.is_closed = True

    with pytest.raises(ConfigError, match="must"):
        KafkaProducer({**PROPS, key: [Other] if key == "interceptor.classes" else Other})
    assert [part.is_closed for part in made] == [True]
    with pytest.raises(ConfigError, match="must"):
        KafkaProducer({**PROPS, key: [given := Other()] if key == "interceptor.classes" else (given := Other())})
    assert not given.is_closed, "it is whoever gave it"


def test_constructor_when_it_is_interrupted_half_way_then_the_applications_parts_are_closed(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(wiring, "client_channel_builder", interrupted)
    with pytest.raises(KeyboardInterrupt):
        KafkaProducer({**PROPS, "interceptor.classes": [interceptor := Part()]})
    assert interceptor.is_closed


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit(), ValueError("no such gateway")],
                         ids=repr)
def test_close_when_a_part_of_the_application_raises_then_the_others_are_closed_and_the_log_says_so(
        caplog: pytest.LogCaptureFixture, error: BaseException) -> None:
    class Leaving(Part):
        def close(self) -> None:
            super().close()
            raise error

    parts = [Leaving(), Part(), Leaving(), Part()]
    KafkaProducer({**PROPS, "metric.reporters": parts}).close()
    assert [part.is_closed for part in parts] == [True] * 4
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error, error]


def test_a_refused_twin_is_said_once_with_its_reason(monkeypatch, caplog):
    monkeypatch.setattr(hotpath, "IS_FALLBACK", True)
    monkeypatch.setattr(hotpath, "REFUSAL", "Interpreter change detected")
    wiring._say_fallback_once.cache_clear()
    for _ in range(2):
        KafkaProducer(PROPS).close()
    assert caplog.text.count("cannot be loaded (Interpreter change detected): pure Python runs") == 1
    assert "C compiler" not in caplog.text


@pytest.mark.parametrize(("file", "said"), [
    ("spark/pyproducer.zip/pyproducer/hotpath/__init__.py", "cannot be loaded out of an archive ("),
    ("__init__.py", "is of another Python or platform than this one"),
])
def test_a_twin_that_is_there_for_somebody_else_is_not_blamed_on_a_missing_compiler(
        monkeypatch, caplog, tmp_path, file, said):
    """A zip in Spark's --py-files ran the Python text and blamed a compiler that was there."""
    (tmp_path / "_native.cpython-27-z80.so").touch()
    monkeypatch.setattr(hotpath, "IS_FALLBACK", True)
    monkeypatch.setattr(hotpath, "REFUSAL", None)
    monkeypatch.setattr(hotpath, "__file__", str(tmp_path / file))
    wiring._say_fallback_once.cache_clear()
    KafkaProducer(PROPS).close()
    assert f"per-record code {said}" in caplog.text
    assert "C compiler" not in caplog.text


def test_a_twin_that_was_not_built_is_said_with_the_command_that_brings_it(monkeypatch, caplog, tmp_path):
    """pip took the wheel for any platform again, or what it had kept, where the advice was to install again."""
    monkeypatch.setattr(hotpath, "IS_FALLBACK", True)
    monkeypatch.setattr(hotpath, "REFUSAL", None)
    monkeypatch.setattr(reinstall, "installed_elsewhere", lambda _folder: None)
    monkeypatch.setattr(hotpath, "__file__", str(tmp_path / "__init__.py"))
    wiring._say_fallback_once.cache_clear()
    KafkaProducer(PROPS).close()
    assert "is not there (no C compiler when it was installed, or a wheel for any platform)" in caplog.text
    assert "-m pip install --force-reinstall --no-deps --no-cache-dir " in caplog.text


def test_a_twin_that_a_checkout_hides_is_said_with_where_it_is(monkeypatch, caplog, tmp_path):
    """`pip install .` had built it, and the warning of a program that began in the checkout blamed the compiler."""
    checkout, installed = tmp_path / "checkout" / "pyproducer" / "hotpath", tmp_path / "site" / "pyproducer" / "hotpath"
    for folder in (checkout, installed):
        folder.mkdir(parents=True)
    (installed / "_native.cpython-311.so").touch()
    metadata = tmp_path / "site" / "pyproducer-0.1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: pyproducer\nVersion: 0.1.0\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(hotpath, "IS_FALLBACK", True)
    monkeypatch.setattr(hotpath, "REFUSAL", None)
    monkeypatch.setattr(hotpath, "__file__", str(checkout / "__init__.py"))
    wiring._say_fallback_once.cache_clear()
    KafkaProducer(PROPS).close()
    assert (f"is not in {checkout.parent}, which hides the installed package, {installed.parent}, that has it: "
            "pure Python runs") in caplog.text
    assert "Start in another folder, or build it in this one." in caplog.text
    assert "no C compiler when it was installed" not in caplog.text
