"""One node of the cluster as seen by the producer: connections, requests in flight, metadata, versions."""
