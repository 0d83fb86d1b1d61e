"""The steps of `python -m pyproducer doctor`: from the settings to a record in the topic, each with what to change."""
