"""Programs that run as they are, each against an embedded broker of its own: `python -m examples.quickstart`."""
