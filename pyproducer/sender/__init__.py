"""The background thread's work: drain batches, send produce requests, complete them."""
