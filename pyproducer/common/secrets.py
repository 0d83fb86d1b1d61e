"""Hides keys, passwords and tokens that stand where nobody expects them, before a value is shown.

What a setting of type PASSWORD holds is hidden by its row (common/settings/definition.py). Here is the rest: a private
key pasted where a path belongs, a password inside an address, a line of JAAS under a misspelt key. Secrets that are
known to be some are SecretText from where they are read.

Road:    [values of the application] -> [secrets] -> messages, repr
Thread:  pure.
Source:  ours; RFC 3986 3.2.1 (userinfo), RFC 7468 (PEM), RFC 7519 (JWT). A guess by its nature: it hides too much
         rather than too little.
"""

from __future__ import annotations

import re
from typing import NoReturn, SupportsIndex

HIDDEN = "[hidden]"


class SecretText(str):
    """A text that does not show itself: no `repr`, and so no traceback with variables, holds it; nor does a pickle.

    It is equal to the text, and `str` gives that. What is made of it (`strip`, a slice) is an ordinary text.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a secret cannot be pickled: read it where it is used")

    def __copy__(self) -> SecretText:
        return self

    def __deepcopy__(self, memo: object) -> SecretText:
        return self


class SecretValue:
    """Whatever was given where a secret belongs and is no text, such as bytes; it does not show itself either.

    Args:
        value: It.
    """

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value: object = value

    def __repr__(self) -> str:
        return HIDDEN

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("a secret cannot be pickled: read it where it is used")


_SECRET = re.compile(
    r"""
      -----BEGIN\ [A-Z0-9 ]+-----.*?(?:-----END\ [A-Z0-9 ]+-----|\Z)           # PEM
    | (?<![A-Za-z0-9+/])M[A-P][A-Za-z0-9+/]{2}[A-Za-z0-9+/=\s]{56,}            # DER in base64: PEM without its marks
    # JWT, with what stands before it without a space. Looked for once in a word that a dot follows, where the first
    # beginning will do: else each beginning would be followed to the end of the word.
    | (?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]+\.[A-Za-z0-9_-])
      (?:[A-Za-z0-9_-]*?[_-])?eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?
    | (?i:password|passwd|pwd|passphrase|secret|token|credentials?)["']?\s*[=]\s*          # JAAS
      (?!"\.\.\.")(?:"[^"]*"?|'[^']*'?|[^\s;"']+)                                        # but for a place of one
    """, re.VERBOSE | re.DOTALL)
# Behind "//" all up to the "@"; elsewhere only with a colon in it, or every mail address would be one.
_USERINFO = re.compile(r"""(?:(?<=//)[^\s'"/]*|(?<![^\s'",/@:])[^\s'",/@:]+:(?!//)[^\s'"]*)@""")
_MOST_BITS = 1024  # Python itself writes no int of some thousand digits
_WORD = re.compile(r"""[^\s'"]+""")


def shown_text(text: str) -> str:
    """Return a text with what looks like a secret replaced by HIDDEN.

    It takes time in proportion to the text, whatever is in it: a broker's message, or an issuer's, may be long.
    """
    text = _SECRET.sub(HIDDEN, text)
    return _WORD.sub(_without_userinfo, text) if "@" in text else text


def _without_userinfo(word: re.Match[str]) -> str:
    """Return a word without user and password. Behind its last "@" nothing is looked for: each colon would be tried."""
    before, at, after = word[0].rpartition("@")
    return _USERINFO.sub(f"{HIDDEN}@", before + at) + after


def shown(value: object) -> object:
    """Return a value as it may be shown: itself, or hidden as a whole, or without the user and password in it."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"an int of {value.bit_length()} bits"
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (SecretText, SecretValue)):
        return HIDDEN
    if isinstance(value, str):
        return HIDDEN if _SECRET.search(value) or "-----BEGIN " in value else shown_text(value)
    if type(value) is list:
        return [shown(item) for item in value]
    if type(value) is tuple:
        return tuple(shown(item) for item in value)
    text = repr(value)
    return HIDDEN if shown(text) != text else value
