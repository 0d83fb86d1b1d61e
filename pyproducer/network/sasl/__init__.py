"""SASL: mechanisms, and who speaks them on a connection: the client's side and the broker's."""
