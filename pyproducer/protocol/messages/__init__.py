"""One module per API: its fields with their version ranges."""
