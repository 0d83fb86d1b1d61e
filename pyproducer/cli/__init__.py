"""The commands of `python -m pyproducer`, one file each."""
