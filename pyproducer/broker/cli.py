"""`python -m pyproducer broker`: a broker on a laptop, until Ctrl-C.

Road:    command line -> [cli] -> InProcessCluster
Thread:  the main thread waits for a signal.
Source:  ours.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from pyproducer.broker.in_process import ClusterOptions, InProcessCluster
from pyproducer.common.errors import ConfigError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a broker until SIGINT or SIGTERM; return the exit code.

    Args:
        argv: The arguments after `broker`.
    """
    arguments = _parser().parse_args(argv)
    logging.basicConfig(level=arguments.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings: dict[str, object] = {"listeners": f"PLAINTEXT://{arguments.host}:{arguments.port}"}
    settings.update(arguments.config)
    try:
        cluster = InProcessCluster(ClusterOptions(1, arguments.data_dir, dict(arguments.topic), settings))
        stop_requested = threading.Event()

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            stop_requested.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, on_signal)
        cluster.start()
    except ConfigError as error:
        print(f"pyproducer broker: {error}", file=sys.stderr)
        return 2
    addresses = ", ".join(f"{name}://{host}:{port}" for name, found in cluster.addresses().items()
                          for host, port in found)
    topics = ", ".join(f"{name}:{count}" for name, count in sorted(cluster.topics().items())) or "none"
    print(f"pyproducer broker listens on {addresses}; data in {cluster.data_dir}; topics: {topics}; "
          "Ctrl-C stops it", flush=True)
    stop_requested.wait()
    cluster.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pyproducer broker",
                                     description="A Kafka broker for tests and laptops.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=9092, help="port to listen on, 0 for any (default: %(default)s)")
    parser.add_argument("--data-dir", help="where the logs are kept (default: a temporary folder, removed at the end)")
    parser.add_argument("--topic", action="append", default=[], type=_topic, metavar="NAME[:PARTITIONS]",
                        help="create this topic; may be given several times")
    parser.add_argument("--config", action="append", default=[], type=_setting, metavar="KEY=VALUE",
                        help="a broker setting under Kafka's name; may be given several times")
    parser.add_argument("--log-level", default="warning", choices=("debug", "info", "warning", "error"),
                        help="what is logged to stderr (default: %(default)s)")
    return parser


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    try:
        return name, int(count) if count else 1
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:PARTITIONS") from None


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value.strip()
