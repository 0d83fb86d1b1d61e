"""One API, one file: its versions, what it does as Kafka does it, and what is left out; and what finds and runs it.

In the docstring of an API "version 3" is a version, "type 2" a type and "acks=1" a value of a request. Any other number
without a sign is an error code that the API answers.
"""
