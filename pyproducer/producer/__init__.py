"""The producer's front: settings, serializers, partitioners, interceptors, KafkaProducer."""
