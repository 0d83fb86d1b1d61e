"""What users need to test code that produces records."""
