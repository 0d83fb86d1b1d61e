"""Measurements: `python -m benchmarks.compare` beside other clients, `python -m benchmarks.batch_writer` alone."""
