"""Kafka's network layer: sockets are accepted, read, muted and written, and requests queued for the handlers."""
