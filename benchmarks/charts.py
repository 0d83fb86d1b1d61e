"""Charts of what the tables say, by matplotlib (`pip install -e '.[bench]'`); without it the tables have to do."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

COLOURS = {"pyproducer": "#d1495b", "pyproducer-python": "#edae49", "confluent-kafka": "#00798c",
           "kafka-python": "#8d96a3", "aiokafka": "#5c6b73", "java": "#30638e", "franz-go": "#2e933c",
           "nothing": "#d9d9d9", "nothing again": "#bfbfbf"}


def draw_bars(path: Path, title: str, panels: Sequence[tuple[str, Mapping[str, Mapping[str, float]]]], *,
              logarithmic: bool = False) -> bool:
    """Draw one row of bar charts.

    Args:
        path: The picture's file; its suffix says which kind.
        title: Above all panels.
        panels: For each its axis and, by group and client, the heights: {"100 B": {"pyproducer": 1.0}}.
        logarithmic: Whether heights are orders of magnitude apart.

    Returns:
        Whether it was drawn; False where matplotlib is not installed, with one sentence.
    """
    try:
        import matplotlib
    except ImportError:
        print("no chart is drawn: matplotlib is not installed: pip install -e '.[bench]'", flush=True)
        return False
    matplotlib.use("Agg")  # a file, never a window
    matplotlib.rcParams["svg.hashsalt"] = "pyproducer"  # the same figures make the same file
    from matplotlib import pyplot

    groups = max(len(heights) for _, heights in panels)
    figure, axes = pyplot.subplots(1, len(panels), figsize=(max(6.0, 1.1 * groups + 3.5) * len(panels), 4.5),
                                   squeeze=False, layout="constrained")
    for axis, (label, heights) in zip(axes[0], panels, strict=True):
        clients = list(dict.fromkeys(client for group in heights.values() for client in group))
        width = 0.8 / len(clients)
        for number, client in enumerate(clients):
            places = [place + (number - (len(clients) - 1) / 2) * width for place in range(len(heights))]
            axis.bar(places, [group.get(client, 0) for group in heights.values()], width, label=client,
                     color=COLOURS.get(client))
        axis.set_xticks(range(len(heights)), [textwrap.fill(group, 12) for group in heights])
        axis.set_ylabel(label)
        if logarithmic:
            axis.set_yscale("log")
        axis.spines[["top", "right"]].set_visible(False)
    # Panels need not have the same clients; those of one name have one colour.
    handles = {label: handle for axis in axes[0]
               for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title, fontsize=10, wrap=True)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return True
