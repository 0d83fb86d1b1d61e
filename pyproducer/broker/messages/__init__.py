"""The requests, responses and kept records of Kafka's that only a broker knows, in all their versions."""
