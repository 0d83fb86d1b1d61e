"""The whole producer, simulated: a world in which every step is drawn from a seed, and a model of Kafka beside it."""
