"""EmbeddedBroker: a Kafka broker for tests and laptops."""
