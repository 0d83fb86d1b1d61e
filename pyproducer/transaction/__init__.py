"""Producer ids, epochs and sequence numbers; no sockets."""
