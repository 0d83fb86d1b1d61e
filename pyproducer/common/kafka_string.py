"""Which text a request can carry: a String of the protocol.

Road:    settings, init_transactions(), send_offsets_to_transaction() -> [this] -> a request's fields
Thread:  a pure function.
Source:  the protocol's STRING, whose length is an INT16 of its bytes in UTF-8.
"""

from __future__ import annotations

MAX_STRING_LENGTH_BYTES = 2**15 - 1
_SHOWN_CHARACTERS = 60  # enough to recognise a name by


def string_fault(text: str) -> str | None:
    """Return why no request can carry a text, as the end of a sentence, or None."""
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        return f"it is sent in UTF-8, which has no way to write the character at {error.start}: leave it out"
    if size_bytes > MAX_STRING_LENGTH_BYTES:
        return (f"it takes {size_bytes} bytes in UTF-8, and a request has room for {MAX_STRING_LENGTH_BYTES}: choose a "
                "shorter one")
    return None


def ensure_string(name: str, text: str) -> None:
    """Refuse a text that no request can carry, before it gets into one.

    Raises:
        ValueError: None can.
    """
    fault = string_fault(text)
    if fault is not None:
        raise ValueError(f"{name} is {beginning(text)!r}: {fault}")


def beginning(text: str) -> str:
    """Return a text as an error quotes it: one that is too long may be megabytes."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
