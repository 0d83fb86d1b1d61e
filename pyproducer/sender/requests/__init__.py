"""The requests that the client sends for itself: producer ids, and the ends of transactions."""
