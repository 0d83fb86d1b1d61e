"""Framing, transports, channels and the selector, shared by client and broker."""
