"""Record batch v2: layout, writing, reading, compression."""
