"""What the brokers of a cluster share: settings, topics, partitions, coordinators, and what looks after them."""
