"""The board and the alert rules in docs/grafana: each query, evaluated by Prometheus over what a producer told it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyproducer import ErrorCode, KafkaProducer, PrometheusCollector
from pyproducer.broker import EmbeddedBroker
from tests.support.patience import GIVE_UP_S, PROGRAM_S
from tests.support.ports import ReservedPorts

prometheus_client = pytest.importorskip("prometheus_client")

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "grafana"
BOARD, RULES = FOLDER / "pyproducer.json", FOLDER / "alerts.yml"
MAY_BE_EMPTY = ("certificate",)  # numbers of producers with TLS


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Prometheus, scraping this process, where a producer has worked and one record has failed."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    folder = tmp_path_factory.mktemp("prometheus")
    registry = prometheus_client.CollectorRegistry()
    registry.register(PrometheusCollector())
    server, thread = prometheus_client.start_http_server(0, addr="127.0.0.1", registry=registry)
    with ReservedPorts(1) as ports, EmbeddedBroker(topics={"orders": 2}) as broker, KafkaProducer({
            "bootstrap.servers": broker.bootstrap_servers, "client.id": "app", "compression.type": "gzip"}) as producer:
        (port,) = ports.numbers
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms}\n"
            f"rule_files: [{RULES}]\n"
            "scrape_configs:\n- job_name: app\n  static_configs: [{targets: ['127.0.0.1:"
            f"{server.server_address[1]}']}}]\n")
        broker.faults.on("Produce", times=1).error(ErrorCode.INVALID_RECORD)
        assert producer.send("orders", b"v").exception(GIVE_UP_S) is not None
        process = subprocess.Popen(
            [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"])
        try:
            url = f"http://127.0.0.1:{port}"
            ends = time.monotonic() + GIVE_UP_S
            while not _has_two_samples(url):
                assert time.monotonic() < ends, "Prometheus did not scrape twice"
                producer.send("orders", b"v").result(GIVE_UP_S)
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()
            process.wait(PROGRAM_S)
    server.shutdown()
    server.server_close()
    thread.join(GIVE_UP_S)


def _has_two_samples(url: str) -> bool:
    try:
        found = ask(url, "count_over_time(kafka_producer_record_send_total[1m])")
    except OSError:
        return False
    return bool(found) and float(found[0]["value"][1]) >= 5


def ask(url: str, query: str) -> list[Any]:
    address = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(address, timeout=GIVE_UP_S) as response:
        answer = json.load(response)
    assert answer["status"] == "success", answer
    result: list[Any] = answer["data"]["result"]
    return result


def board_queries() -> list[str]:
    return [target["expr"].replace("$__rate_interval", "1m").replace("$client_id", ".*")
            for panel in json.loads(BOARD.read_text())["panels"] for target in panel["targets"]]


def test_board_when_each_query_is_evaluated_then_it_finds_something(prometheus: str) -> None:
    queries = board_queries()
    assert len(queries) >= 20
    # Nothing was sent again, and errors have a series from the first one on.
    assert [query for query in queries if not ask(prometheus, query)] == [
        query for query in queries if "error_record_retry" in query]


def test_board_when_read_then_panels_have_ids_and_places_of_their_own() -> None:
    panels = json.loads(BOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)


def test_rules_when_prometheus_checks_and_evaluates_them_then_all_are_healthy(prometheus: str) -> None:
    tool = shutil.which("promtool")
    assert tool is not None
    checked = subprocess.run([tool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    ends = time.monotonic() + GIVE_UP_S
    while True:
        with urllib.request.urlopen(f"{prometheus}/api/v1/rules", timeout=GIVE_UP_S) as response:
            rules = [rule for group in json.load(response)["data"]["groups"] for rule in group["rules"]]
        if all(rule["health"] == "ok" for rule in rules):
            break
        assert {rule["health"] for rule in rules} <= {"ok", "unknown"}, rules
        assert time.monotonic() < ends
        time.sleep(0.2)
    assert len(rules) >= 8
    for rule in rules:  # the numbers that it compares are there, whatever the threshold
        for name in _names(rule["query"]):
            if not any(part in name for part in MAY_BE_EMPTY) and "record_retry" not in name:
                assert ask(prometheus, name), name


TOTAL = 'kafka_producer_record_error_total{client_id="app"}'
BY_ERROR = 'kafka_producer_error_record_error_total{client_id="app", error="%s"}'


def fire(folder: Path, alert: str, series: dict[str, str], expected: dict[str, list[dict[str, str]]]) -> None:
    """Have promtool play series of a sample every 15 s, and compare what an alert says.

    Args:
        folder: For its file.
        alert: Its name.
        series: Values by series, as promtool writes them.
        expected: The labels of the alerts that fire at a time, "90s", without the severity.
    """
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    severity = re.findall(rf"alert: {alert}$.*?severity: (\w+)", RULES.read_text(), re.MULTILINE | re.DOTALL)[0]
    path = folder / "test.yml"
    path.write_text(json.dumps({
        "rule_files": [str(RULES)], "evaluation_interval": "15s",
        "tests": [{"interval": "15s",
                   "input_series": [{"series": name, "values": values} for name, values in series.items()],
                   "promql_expr_test": [
                       {"expr": f'ALERTS{{alertname="{alert}", alertstate="firing"}}', "eval_time": at,
                        "exp_samples": [{"labels": _series("ALERTS", alertname=alert, alertstate="firing",
                                                           severity=severity, **labels), "value": 1}
                                        for labels in alerts]} for at, alerts in expected.items()]}]}))
    played = subprocess.run([tool, "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert played.returncode == 0, played.stdout + played.stderr


def _series(name: str, **labels: str) -> str:
    return name + "{" + ", ".join(f'{label}="{value}"' for label, value in labels.items()) + "}"


def test_alert_of_failed_records_when_the_first_burst_of_an_error_is_all_then_it_names_that_error(
        tmp_path: Path) -> None:
    """The error's series was born at 500 and stayed there: its rate was 0, and nobody was told of 500 lost records."""
    fire(tmp_path, "KafkaProducerRecordsFail",
         {TOTAL: "0x8 500x40", BY_ERROR % "INVALID_RECORD": "_x8 500x40"},
         {"2m": [], "4m": [{"client_id": "app", "error": "INVALID_RECORD"}], "9m": []})


def test_alert_of_failed_records_when_another_error_comes_then_it_names_that_one_and_not_the_old_one(
        tmp_path: Path) -> None:
    fire(tmp_path, "KafkaProducerRecordsFail",
         {TOTAL: "0x2 3x40 10x10", BY_ERROR % "INVALID_RECORD": "_x2 3x60",
          BY_ERROR % "KafkaTimeoutError": "_x43 7x20"},
         {"9m": [], "12m30s": [{"client_id": "app", "error": "KafkaTimeoutError"}]})


def test_alert_of_failed_records_when_the_error_is_not_known_then_it_fires_all_the_same(tmp_path: Path) -> None:
    fire(tmp_path, "KafkaProducerRecordsFail", {TOTAL: "0x8 500x40"}, {"4m": [{"client_id": "app"}]})


def test_alert_of_leaders_when_records_wait_for_an_unknown_topic_then_it_does_not_speak_of_a_partition(
        tmp_path: Path) -> None:
    leader = 'kafka_producer_partition_leader{client_id="app", topic="orders", partition="%d"}'
    fire(tmp_path, "KafkaProducerPartitionHasNoLeader", {leader % -1: "-1x20", leader % 0: "-1x20", leader % 1: "4x20"},
         {"4m": [{"client_id": "app", "topic": "orders", "partition": "0"}]})


def _names(query: str) -> set[str]:
    return set(re.findall(r"kafka_producer_\w+", query))
