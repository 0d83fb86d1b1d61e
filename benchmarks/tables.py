"""Tables of medians and of ratios within a round, and the files that keep them.

A ratio is the median of the ratios within each round: the machine's mood changes between rounds, and a ratio within
one round does not see it.
"""

from __future__ import annotations

import os
import platform
import shlex
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.workload import Latency, Lateness, Measurement
from pyproducer.hotpath import IMPL

RESULTS = Path(__file__).resolve().parent / "results"
REFERENCES = ("confluent-kafka", "java", "franz-go")

Figure = tuple[str, str, Callable[[Any], float]]
RATE_FIGURES: tuple[Figure, ...] = (
    ("records/s", "{:,.0f}", lambda measurement: measurement.rate),
    ("CPU us/record", "{:.2f}", lambda measurement: measurement.cpu_us),
    ("peak MiB", "{:.0f}", lambda measurement: measurement.peak_memory_mib),
)
LATENCY_FIGURES: tuple[Figure, ...] = (
    ("p50 us", "{:,.0f}", lambda latency: latency.p50_us),
    ("p99 us", "{:,.0f}", lambda latency: latency.p99_us),
    ("p99.9 us", "{:,.0f}", lambda latency: latency.p999_us),
)
LATENESS_FIGURES: tuple[Figure, ...] = (
    ("p50 us late", "{:,.0f}", lambda lateness: lateness.p50_us),
    ("p90 us late", "{:,.0f}", lambda lateness: lateness.p90_us),
    ("p99 us late", "{:,.0f}", lambda lateness: lateness.p99_us),
)
SENDS: Figure = ("sends/s", "{:,.0f}", lambda lateness: lateness.sends_per_s)

Round = Mapping[str, Measurement] | Mapping[str, Latency] | Mapping[str, Lateness]


def medians(figure: Figure, rounds: Sequence[Round]) -> dict[str, float]:
    """Return the median of one figure for each client."""
    return {client: statistics.median(figure[2](one[client]) for one in rounds) for client in rounds[0]}


def ratios(figure: Figure, rounds: Sequence[Round], client: str, reference: str) -> list[float]:
    """Return a client's figure as a multiple of the reference's, for each round."""
    return [figure[2](one[client]) / figure[2](one[reference]) for one in rounds]


def report(title: str, rounds: Sequence[Round], figures: Sequence[Figure] = RATE_FIGURES,
           references: Sequence[str] = REFERENCES, beside: Sequence[Figure] = ()) -> str:
    """Return the table: medians, then ratios to the reference clients (median, lowest and highest round).

    Figures `beside` the others have medians only.
    """
    names = sorted(rounds[0], key=_order)
    heads = "".join(f"{name:>20}" for name, _, _ in figures)
    lines = [title, "", f"{'medians':<28}{heads}" + "".join(f"{name:>20}" for name, _, _ in beside)]
    columns = [(form, medians((name, form, figure), rounds)) for name, form, figure in (*figures, *beside)]
    for client in names:
        lines.append(f"{client:<28}" + "".join(f"{form.format(values[client]):>20}" for form, values in columns))
    for reference in references:
        if reference not in names:
            continue
        lines += ["", f"{'x ' + reference:<28}{heads}"]
        for client in names:
            cells = []
            for figure in figures:
                each = ratios(figure, rounds, client, reference)
                cells.append(f"{statistics.median(each):.2f} ({min(each):.2f}-{max(each):.2f})")
            lines.append(f"{client:<28}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join(lines)


def machine() -> str:
    """Return what was measured on."""
    return (f"hotpath {IMPL}; Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs shared "
            "by broker and client")


def command(module: str) -> str:
    """Return the command that this process is, as a reader would type it."""
    return f"python -m benchmarks.{module} {shlex.join(sys.argv[1:])}".strip()


def keep(name: str, module: str, text: str) -> None:
    """Write a table to benchmarks/results, under the command that made it."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.txt").write_text(f"$ {command(module)}\n\n{text}\n", encoding="ascii")


def _order(name: str) -> int:
    from benchmarks.rounds import ALL_CLIENTS

    # What is no client stays in the order of its turns, behind the clients.
    return ALL_CLIENTS.index(name) if name in ALL_CLIENTS else len(ALL_CLIENTS)
