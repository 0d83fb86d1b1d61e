"""What a producer tells of itself: rows that owners write, names for them, history, and why records take long."""
