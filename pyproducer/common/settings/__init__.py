"""Settings: rows are declared, values are parsed, mistakes are told; for the producer and for the broker alike."""
