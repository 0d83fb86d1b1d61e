"""What a request is to the broker that reads it: its parts by their schema, and who asks."""
