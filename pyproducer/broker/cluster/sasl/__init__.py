"""The broker's side of a login: each mechanism's server, and the exchange of its messages on a connection."""
