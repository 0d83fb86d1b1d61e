"""Frames of polars, pandas, DuckDB, Arrow, Daft to a topic: `pyproducer.frames.write(props, frame, "orders")`.

Road:    frame -> [frames] -> columns -> send_batch
Thread:  the caller's.
Source:  ours; a frame is what has __arrow_c_stream__ (Arrow's PyCapsule interface).
"""

from __future__ import annotations

from pyproducer.frames.frame_writer import write

__all__ = ["write"]
