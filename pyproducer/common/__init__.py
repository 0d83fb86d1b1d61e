"""Data types that every stretch of the road shares: records, cluster, errors, clock, backoff, metrics."""
