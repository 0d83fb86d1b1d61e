"""Logs on disk in Kafka's own segment format: segments, indexes, producer state, validation, recovery."""
