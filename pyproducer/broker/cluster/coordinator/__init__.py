"""Group and transaction coordinators, and the internal topics that are their memory."""
