"""The comparison runs every client, and its table says what it claims to say."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest

import benchmarks
from benchmarks import event_loop, foreign_clients, latency, tables
from benchmarks.back_pressure import PRESSED
from benchmarks.broker_limits import Other
from benchmarks.busy import busy_processes
from benchmarks.charts import draw_bars
from benchmarks.clients import CLIENTS, SLOW
from benchmarks.event_loop import MEASURES
from benchmarks.foreign_clients import FOREIGN
from benchmarks.gate import INCONCLUSIVE, PASS, RATES, REGRESSION, WAITS, Round, judge, overall
from benchmarks.latency_clients import CALLERS
from benchmarks.loop_process import LOOP_CLIENTS
from benchmarks.matrix import AXES, every_combination, rows_of
from benchmarks.memory import press
from benchmarks.rounds import ALL_CLIENTS, ALL_LATENCY_CLIENTS, run_client, run_latency, run_sleeper, take_turns
from benchmarks.sleeper_process import NOTHING, late_wake_ups
from benchmarks.startup import FIRST_RECORD, run_once
from benchmarks.tables import LATENESS_FIGURES, SENDS, report
from benchmarks.workload import Latency, Lateness, Measurement, Workload
from tests.support.bad_servers import closed_port
from tests.support.certificates import Certificates
from tests.support.kafka_jars import MissingTool
from tests.support.kafka_server import KafkaServer
from tests.support.patience import GIVE_UP_S, PROGRAM_S

ROOT = Path(__file__).resolve().parents[2]


def require(name: str) -> None:
    """Raise MissingTool, which the suite turns into a skip, for a program that cannot be built here."""
    if name in FOREIGN:
        FOREIGN[name]()


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "pyproducer" else pytest.mark.soak)
                                  for name in ALL_CLIENTS])
def test_client_in_a_process_of_its_own_stores_the_workload_and_measures(kafka: KafkaServer, name: str) -> None:
    require(name)
    measurement = run_client(name, kafka, 3, Workload(record_count=2000, warm_up_s=0))
    assert (measurement.client, measurement.record_count) == (name, 2000 // SLOW.get(name, 1))
    assert measurement.cpu_seconds >= 0  # the JVM counts hundredths of a second
    assert measurement.peak_memory_mib > 5


@pytest.mark.soak
@pytest.mark.parametrize("name", ALL_CLIENTS)
def test_client_out_of_the_box_without_keys_stores_the_workload(kafka: KafkaServer, name: str) -> None:
    require(name)
    workload = Workload(record_count=1000, keyed=False, out_of_the_box=True, warm_up_s=0)
    assert run_client(name, kafka, 3, workload).seconds > 0


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "pyproducer" else pytest.mark.soak)
                                  for name in CLIENTS])
def test_client_over_tls_stores_the_workload(kafka: KafkaServer, certificates: Certificates, name: str) -> None:
    workload = Workload(record_count=2000, warm_up_s=0, trusted_file=str(certificates.ca))
    assert "TLS" in workload.describe()
    assert workload.slug().endswith("-tls")
    assert run_client(name, kafka, 3, workload).seconds > 0


@pytest.mark.soak
@pytest.mark.parametrize("name", ALL_LATENCY_CLIENTS)
def test_waiting_caller_gets_percentiles_in_order(kafka: KafkaServer, name: str) -> None:
    require(name)
    waited = run_latency(name, kafka, 3, Workload(record_count=50, linger_ms=0, warm_up_s=0), busy=False)
    assert (waited.client, waited.record_count) == (name, 50)
    assert 0 < waited.p50_us <= waited.p99_us <= waited.p999_us


@pytest.mark.soak
def test_waiting_caller_beside_a_busy_thread_is_measured(kafka: KafkaServer) -> None:
    workload = Workload(record_count=20, linger_ms=0, warm_up_s=0)
    assert run_latency("pyproducer", kafka, 3, workload, busy=True).p50_us > 0


@pytest.mark.soak
@pytest.mark.parametrize("name", [NOTHING, *CALLERS])
def test_sleeper_beside_a_caller_or_beside_nothing_wakes_up_as_often_as_asked(kafka: KafkaServer, name: str) -> None:
    late = run_sleeper(name, kafka, 3, Workload(linger_ms=0), 100)
    assert (late.client, late.wake_up_count) == (name, 100)
    assert 0 <= late.p50_us <= late.p90_us <= late.p99_us
    assert (late.sends_per_s > 0) == (name != NOTHING)


def test_sleeper_is_beside_sends_until_its_last_wake_up() -> None:
    records = [(b"1", b"a"), (None, b"b")]
    sent: list[tuple[bytes | None, bytes]] = []

    def send_and_wait(key: bytes | None, value: bytes) -> None:
        sent.append((key, value))
        time.sleep(0.0001)

    late = late_wake_ups("x", send_and_wait, records, 20)
    assert late.wake_up_count == 20
    assert late.sends_per_s > 0
    assert sent[:4] == [*records, *records]
    assert late_wake_ups(NOTHING, None, records, 3).sends_per_s == 0


def test_sleeper_when_a_send_fails_then_it_ends_too() -> None:
    """A sleeper left behind fails the test: no thread of it may be there afterwards."""
    def send_and_wait(key: bytes | None, value: bytes) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        late_wake_ups("x", send_and_wait, [(None, b"a")], 1_000_000)


def test_busy_processes_compute_until_the_block_ends_whatever_ends_it() -> None:
    def fail_when_they_have_computed(pids: list[int]) -> None:
        deadline = time.monotonic() + GIVE_UP_S
        while min(psutil.Process(pid).cpu_times().user for pid in pids) < 0.2:
            assert time.monotonic() < deadline, "they do not compute"
            time.sleep(0.05)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), busy_processes(2) as pids:
        fail_when_they_have_computed(pids)
    assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_busy_processes_when_their_parent_is_killed_then_they_end() -> None:
    program = ("import time\nfrom benchmarks.busy import busy_processes\n"
               "with busy_processes(2) as pids:\n    print(*pids, flush=True)\n    time.sleep(600)\n")
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        busy: list[psutil.Process] = []
        try:
            busy = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
            assert len(busy) == 2
            parent.kill()
            assert parent.stderr.read() == ""  # which ends when nobody has it any more: they had it from their parent
            busy.clear()
        finally:
            parent.kill()
            for process in busy:
                process.kill()


def test_busy_process_that_does_not_last_is_an_error() -> None:
    def end(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    with pytest.raises(RuntimeError, match="ended before what it was to disturb"), busy_processes(1) as [pid]:
        end(pid)


@pytest.mark.parametrize(("mode", "name"), [
    pytest.param(mode, name, marks=() if (mode, name) == ("watched", "pyproducer") else pytest.mark.soak)
    for mode in MEASURES for name in LOOP_CLIENTS])
def test_loop_client_in_a_process_of_its_own_stores_its_records_and_measures(
        kafka: KafkaServer, mode: str, name: str) -> None:
    run = event_loop.run_once(mode, name, kafka, 500)
    assert (run.client, run.record_count) == (name, 500)
    assert min(run.seconds, MEASURES[mode].figure(run)) > 0


@pytest.mark.soak
def test_web_app_is_asked_while_kafka_is_there_and_away(own_kafka: KafkaServer) -> None:
    if importlib.util.find_spec("uvicorn") is None:
        raise MissingTool("the package uvicorn is not installed: pip install -e '.[bench]'")
    there, killed, why_killed, stopped, why_stopped = event_loop.serve(own_kafka, 1)
    assert "5 x 200 stored" in there
    assert "503 KafkaTimeoutError" in killed
    assert "503 KafkaTimeoutError" in stopped
    assert all("delivery.timeout.ms is 10000" in why for why in (why_killed, why_stopped))


def test_percentiles_are_by_nearest_rank() -> None:
    times_ns = [number * 1000 for number in range(1000, 0, -1)]
    waited = Latency.of("x", times_ns)
    assert (waited.p50_us, waited.p99_us, waited.p999_us) == (501, 991, 1000)
    late = Lateness.of("x", times_ns, 50, 2.0)
    assert (late.p50_us, late.p90_us, late.p99_us, late.sends_per_s) == (501, 901, 991, 25)


def test_matrix_has_a_row_for_each_size_codec_key_partition_default_and_distance() -> None:
    rows = rows_of(AXES, 1_000_000, 5)
    assert {row.workload.value_size_bytes for row in rows} == {100, 1024, 10240}
    assert {row.workload.compression for row in rows} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {row.workload.keyed for row in rows} == {row.workload.out_of_the_box for row in rows} == {False, True}
    assert {row.partitions for row in rows} == {1, 3, 50}
    assert {row.delay_ms for row in rows} == {0, 1, 10, 50}
    assert len({row.name for row in rows}) == len(rows)
    assert len(every_combination(1_000_000, 5)) == 3 * 5 * 2 * 3


def test_turns_rotate_within_the_bracket_of_their_round() -> None:
    ran: list[str] = []

    def run(name: str) -> Lateness:
        ran.append(name)
        return Lateness(name, 1, 1, 1, 1, 1)

    rounds = take_turns(["a", "b"], 2, run, show=str, first=[NOTHING], last=["nothing again"])
    assert ran == [NOTHING, "a", "b", "nothing again", NOTHING, "b", "a", "nothing again",
                   NOTHING, "a", "b", "nothing again"]
    assert [set(one) for one in rounds] == [set(ran)] * 2


def test_report_of_sleepers_has_the_bracket_last_and_no_ratio_of_sends() -> None:
    measured = {NOTHING: Lateness(NOTHING, 10, 40, 50, 60, 0),
                "pyproducer": Lateness("pyproducer", 10, 80, 100, 120, 5),
                "nothing again": Lateness(NOTHING, 10, 60, 75, 90, 0)}
    absolute, ratios = report("title", [measured], LATENESS_FIGURES, [NOTHING], beside=[SENDS]).split("x nothing")
    assert [line.split() for line in absolute.splitlines()[3:6]] == [
        ["pyproducer", "80", "100", "120", "5"], ["nothing", "40", "50", "60", "0"],
        ["nothing", "again", "60", "75", "90", "0"]]
    assert "1.50 (1.50-1.50)" in ratios.splitlines()[-1]
    assert "sends/s" not in ratios


def test_latency_measures_the_tables_it_is_asked_for_and_keeps_them_apart(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, float, int]] = []

    def run_one(name: str, server: object, partitions: int, workload: Workload, *, busy: bool) -> Latency:
        assert not busy
        computing = [child for child in psutil.Process().children() if "benchmarks.busy" in child.cmdline()]
        ran.append((name, workload.warm_up_s, len(computing)))
        return Latency(name, workload.record_count, 1, 2, 3)

    def sleep_beside(name: str, server: object, partitions: int, workload: Workload, count: int) -> Lateness:
        ran.append((name, 0, count))
        return Lateness(name, count, 1, 2, 3, 4)

    monkeypatch.setattr(latency, "real_broker", nullcontext)
    monkeypatch.setattr(latency, "present", list)
    monkeypatch.setattr(latency, "run_latency", run_one)
    monkeypatch.setattr(latency, "run_sleeper", sleep_beside)
    for module in (latency, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", [
        "latency.py", "--tables", "sleeper", "processes", "--clients", "java", "pyproducer", "aiokafka",
        "--rounds", "1", "--busy-processes", "2", "--wake-ups", "7", "--warm-up-s", "2", "--keep"])
    latency.main()
    beside_processes, sleepers = ran[:4], ran[4:]
    assert beside_processes == [(name, 2 * latency.WARM_UP_FACTOR, 2) for name in (
        "pyproducer", "java", "java", "pyproducer")]
    assert sleepers == [(name, 0, 7) for name in (NOTHING, "pyproducer", NOTHING)] * 2
    text = (tmp_path / "latency-processes-sleeper.txt").read_text()
    assert 0 < text.index("one caller beside 2 busy processes: ") < text.index("a thread that sleeps 1 ms beside one ")
    assert not (tmp_path / "latency.txt").exists()


def rounds_of(*rates: tuple[float, float, float], by_others: float = 0.0) -> list[Round]:
    """What a gate measured: records a second of base, candidate and base again."""
    return [Round(*(Measurement("pyproducer", 1000, 1000 / rate, 1000 / rate, 2**20) for rate in one), by_others)
            for one in rates]


@pytest.mark.parametrize(("rounds", "verdicts"), [
    (rounds_of((100, 100, 101), (103, 100, 99), (100, 102, 100)), (PASS, PASS, PASS)),
    (rounds_of((100, 120, 101), (103, 120, 99), (100, 122, 100)), (PASS, PASS, PASS)),
    (rounds_of((100, 90, 101), (103, 90, 99), (100, 91, 100)), (REGRESSION, REGRESSION, PASS)),
    # Worse, but not beyond what the base differs from itself.
    (rounds_of((100, 104, 130), (130, 104, 100), (100, 90, 100)), (INCONCLUSIVE, INCONCLUSIVE, PASS)),
    # The machine slows down.
    (rounds_of((100, 95, 90), (100, 95, 90), (90, 85, 80)), (INCONCLUSIVE, INCONCLUSIVE, PASS)),
    # Ups and downs of the base do not cancel each other.
    (rounds_of((100, 75, 50), (50, 75, 100), (100, 75, 50), (50, 75, 100)), (INCONCLUSIVE, INCONCLUSIVE, PASS)),
    # However the machine drifts: worse, or better, than all that the base was.
    (rounds_of((100, 50, 106), (106, 50, 100), (100, 50, 106)), (REGRESSION, REGRESSION, PASS)),
    (rounds_of((100, 150, 106), (106, 150, 100), (100, 150, 106)), (PASS, PASS, PASS)),
    # Far better in two rounds is no evidence of being worse in three.
    (rounds_of((100, 94, 100), (100, 94, 100), (100, 94, 100), (100, 200, 100), (100, 200, 100)),
     (INCONCLUSIVE, INCONCLUSIVE, PASS)),
    # Others work, too: CPU and memory are judged all the same.
    (rounds_of((100, 90, 101), (103, 90, 99), (100, 91, 100), by_others=0.3), (INCONCLUSIVE, REGRESSION, PASS)),
])
def test_gate_judges_the_candidate_by_the_base_and_the_base_by_itself(
        rounds: list[Round], verdicts: tuple[str, ...]) -> None:
    assert tuple(judge(figure, rounds).verdict for figure in RATES) == verdicts


def test_gate_takes_longer_waits_for_worse_and_the_worst_verdict_for_all() -> None:
    def waited(p50_us: float) -> Latency:
        return Latency("pyproducer", 10, p50_us, 10 * p50_us, 20 * p50_us)

    found = [judge(figure, [Round(waited(100), waited(110), waited(101), 0.0)]) for figure in WAITS]
    assert [(round(one.ratio, 3), one.verdict) for one in found] == [(1.095, REGRESSION), (1.095, PASS)]
    assert overall([PASS, PASS]) == PASS
    assert overall([PASS, INCONCLUSIVE]) == INCONCLUSIVE
    assert overall([INCONCLUSIVE, REGRESSION, PASS]) == REGRESSION


def test_report_of_two_rounds_gives_medians_and_ratios_within_a_round() -> None:
    def measured(client: str, seconds: float) -> Measurement:
        return Measurement(client, 1000, seconds, seconds / 2, 2**20)

    text = report("title", [{"pyproducer": measured("pyproducer", 1), "java": measured("java", 4)},
                            {"pyproducer": measured("pyproducer", 2), "java": measured("java", 4)}])
    absolute, ratios = text.split("x java")
    assert ["pyproducer", "750", "750.00", "1"] in [line.split() for line in absolute.splitlines()]
    assert "3.00 (2.00-4.00)" in ratios
    assert "0.38 (0.25-0.50)" in ratios


@pytest.mark.soak
def test_batch_writer_benchmark_reads_back_every_codec() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks.batch_writer", "--rounds", "1"], cwd=ROOT,
                          capture_output=True, text=True, timeout=PROGRAM_S, check=True)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"\n{codec} " in done.stdout


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(PRESSED))
def test_memory_of_a_client_is_watched_while_the_broker_is_stopped(own_kafka: KafkaServer, name: str) -> None:
    resident = press(name, own_kafka, Workload(record_count=100), 0.5, stopped=True)
    assert 0 < resident.before_bytes <= resident.peak_bytes
    assert resident.record_count > 0


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(FIRST_RECORD))
def test_startup_is_import_and_then_the_first_acknowledgement(
        kafka: KafkaServer, name: str, tmp_path: Path) -> None:
    kafka.create_topic(f"startup-{name}")
    took = run_once(name, kafka.bootstrap_servers, f"startup-{name}", str(tmp_path))
    assert min(took) > 0
    assert took.total_ms >= took.import_ms + took.acknowledged_ms


def test_values_of_other_clients_when_their_file_is_of_another_commit_then_it_is_written_anew(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign_clients, "CACHE", tmp_path)
    workload = Workload(key_count=3)
    for before in (None, b"of another commit"):
        if before is not None:
            foreign_clients.values_file(workload).write_bytes(before)
        assert foreign_clients.values_file(workload).read_bytes() == b"".join(workload.values())


def test_other_connection_when_it_is_not_served_then_its_round_trips_are_no_result() -> None:
    """Its thread ended, and the table had the slowest of what came before: nothing, and so within the limit."""
    with closed_port() as address:
        host, _, port = address.rpartition(":")
        other = Other((host, int(port)))
        other.start()
        with pytest.raises(RuntimeError, match="was not served: ConnectionRefusedError"):
            other.stop()


def test_list_of_benchmarks_has_each_program_and_says_which_make_bench_runs() -> None:
    listed = re.findall(r"^(\w+)(\*?) +\S", benchmarks.__doc__ or "", re.MULTILINE)
    by_make = set(re.findall(r"-m benchmarks\.(\w+)", (ROOT / "Makefile").read_text()))
    assert {name for name, star in listed if not star} == by_make
    # Those that are processes of others say so themselves, and take arguments that nobody types.
    programs = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "\nif __name__ ==" in path.read_text()}
    assert {name for name, _ in listed} == programs - {"back_pressure", "busy", "client_process", "loop_process",
                                                      "sleeper_process", "web_app"}


def test_kept_table_names_its_command_and_its_chart_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingTool("the package matplotlib is not installed: pip install -e '.[bench]'")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["compare.py", "--keep", "--rounds", "1"])
    tables.keep("x", "compare", "the table")
    assert (tmp_path / "x.txt").read_text().startswith("$ python -m benchmarks.compare --keep --rounds 1\n\nthe table")
    assert draw_bars(tmp_path / "x.svg", "title", [("records/s", {"100 B": {"pyproducer": 1.0, "java": 2.0}})])
    assert "<svg" in (tmp_path / "x.svg").read_text()
