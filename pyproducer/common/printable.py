"""Text that a peer told, made fit for a log line or a message.

Whoever answers at a broker's address chooses host names and error messages. A newline in one would write a line of its
own into a log, an ESC would paint the terminal that shows it.

Road:    [host names, error messages of brokers] -> [printable] -> messages, log lines, addresses
Thread:  pure.
Source:  ours; CWE-117. Java logs them as they come.
"""

from __future__ import annotations

# A host name has at most 253 characters (RFC 1035), and brokers' messages are sentences.
LONGEST_NAME = 255
LONGEST_MESSAGE = 2000


def printable(text: str, longest: int = LONGEST_MESSAGE) -> str:
    r"""Return a text with what is not printable escaped as in Python (`\n`, `\x1b`, `\u2028`), and its end cut off."""
    if text.isprintable() and len(text) <= longest:
        return text
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:longest])
    return shown if len(text) <= longest else f"{shown}... ({len(text)} characters)"
