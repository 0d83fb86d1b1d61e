"""Other clients' producers over KafkaProducer, for programs that migrate: one module each, named as theirs."""
