"""KafkaSink: write a DataFrame to Kafka from its partitions."""
