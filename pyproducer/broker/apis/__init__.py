"""One API, one file: its versions, what it does as Kafka does it, and what is left out; and what finds and runs it."""
