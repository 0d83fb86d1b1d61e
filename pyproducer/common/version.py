"""Our version: in releases, logs, and what brokers are told of their clients (KIP-511).

Here and not in the package's first file, which imports all others; setup.cfg reads it. To ask the installation for it
(importlib.metadata) would be a fifth of what an import takes.

Source:  ours.
"""

__version__ = "0.1.0"
