"""Kafka's wire protocol: types, schemas, one table of APIs, headers; no sockets."""
