"""Reads the text of sasl.jaas.config: one login module with its options.

    login.module.ClassName required name="value" other='value' third=word;

The text is Java's, so it is cut as Java's StreamTokenizer cuts it: values stand in double or single quotes, with
backslash escapes; a value without quotes is a word of letters, digits and . - _ $; comments are those of Java. What a
text holds is secret: errors say what is wrong and at which character, and repeat nothing of it.

Road:    sasl.jaas.config -> [jaas] -> login of the client, users of the broker
Thread:  pure.
Source:  Java JaasConfig, JaasContext.load (4.1), java.io.StreamTokenizer; compared by tests/kafka/
         test_config_parity.py. Differs from Java: a quote that is not closed on its line is an error; Java ends the
         value there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, NoReturn

from pyproducer.common.errors import ConfigError
from pyproducer.common.secrets import HIDDEN, SecretText

KEY = "sasl.jaas.config"
_KAFKA = "org.apache.kafka.common.security."
PLAIN_MODULE = f"{_KAFKA}plain.PlainLoginModule"
SCRAM_MODULE = f"{_KAFKA}scram.ScramLoginModule"
OAUTHBEARER_MODULE = f"{_KAFKA}oauthbearer.OAuthBearerLoginModule"
MSK_IAM_MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")
_SHADED = "kafkashaded."
_FORM = "write: login.module.ClassName required name=\"value\" other=\"value\";"
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NUMBER_STARTS = "0123456789.-"
_OCTAL = "01234567"


class SecretOptions(Mapping[str, str]):
    """Options of a login module; their values are not shown and not pickled."""

    def __init__(self, options: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
        self._options: dict[str, str] = {}  # there before a parser behind `options` raises
        self._options.update(options)

    def __getitem__(self, name: str) -> str:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {HIDDEN}" for name in self._options) + "}"

    def __reduce__(self) -> NoReturn:
        raise TypeError("the options of a login module are secret and cannot be pickled")


class JaasEntry(NamedTuple):
    """One login module of a JAAS configuration.

    Attributes:
        login_module: Java's full name of its class; of Kafka's own without the prefix that Databricks puts before it.
        control_flag: required, requisite, sufficient or optional; with one module it changes nothing.
        options: Its options by name, the last one where a name stands twice. The values are secret.
    """

    login_module: str
    control_flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        """Show the names of the options, and no value."""
        return f"JaasEntry({self.login_module!r}, {self.control_flag!r}, {self.options!r})"


def parse_jaas(text: str, key: str = KEY) -> JaasEntry:
    """Return the login module that a text of JAAS names.

    Args:
        text: One entry, with its semicolon.
        key: The setting, for messages.

    Raises:
        ConfigError: The text is not one entry; the message says what is wrong and where, and holds nothing of the text.
    """
    tokens = _Tokens(text, key)
    del text  # a traceback that shows the variables of its frames shows none with a secret in it
    token = tokens.next()
    if token is None:
        tokens.refuse("no login module: " + _FORM)
    entry = _parse_entry(token, tokens)
    if tokens.next() is not None:
        tokens.refuse("something stands behind the semicolon; there must be one login module")
    return entry


class _Token:
    """One word, quoted text or mark. Its `repr` shows nothing."""

    __slots__ = ("kind", "text")

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.text = SecretText(text)


_WORD, _QUOTED, _NUMBER = "word", "quoted", "number"


def _parse_entry(token: _Token, tokens: _Tokens) -> JaasEntry:
    if token.kind not in (_WORD, _QUOTED):
        tokens.refuse("the name of a login module must stand here: " + _FORM)
    module = token.text
    flag = tokens.next()
    if flag is None:
        tokens.refuse("the text ends where the control flag must stand: " + _FORM)
    if flag.kind not in (_WORD, _QUOTED) or flag.text.lower() not in CONTROL_FLAGS:
        tokens.refuse(f"the control flag must stand here, one of {', '.join(CONTROL_FLAGS)}: {_FORM}")
    options = SecretOptions(_parse_options(tokens))
    return JaasEntry(module.removeprefix(_SHADED), flag.text.lower(), options)


def _parse_options(tokens: _Tokens) -> Iterator[tuple[str, str]]:
    while True:
        name = tokens.next()
        if name is None:
            tokens.refuse("the entry does not end with a semicolon")
        if name.kind == ";":
            return
        if name.kind not in (_WORD, _QUOTED):
            tokens.refuse("the name of an option must stand here, or the semicolon that ends the entry")
        equals = tokens.next()
        if equals is None or equals.kind != "=":
            tokens.refuse("after the name of an option there must be = and its value; a value with blanks or other "
                          "marks than . - _ $ must stand in quotes")
        value = tokens.next()
        if value is None or value.kind not in (_WORD, _QUOTED):
            tokens.refuse("a value must stand here; one that begins with a digit or has other marks than . - _ $ must "
                          "stand in quotes")
        yield str(name.text), value.text


class _Tokens:
    """Cuts a text. Its `repr` shows nothing of it."""

    __slots__ = ("_at", "_key", "_start", "_text")

    def __init__(self, text: str, key: str) -> None:
        self._text = text
        self._key = key
        self._at = 0
        self._start = 0

    def next(self) -> _Token | None:
        """Return the next token; None at the end."""
        self._skip_blanks()
        self._start = self._at
        if self._at == len(self._text):
            return None
        char = self._text[self._at]
        if char in "\"'":
            return self._quoted(char)
        if char in _NUMBER_STARTS:
            return self._run(_NUMBER)
        if _is_word(char):
            return self._run(_WORD)
        self._at += 1
        return _Token(char, char)

    def refuse(self, why: str) -> NoReturn:
        """Raise the error for the token that was read last.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(self._key, HIDDEN, f"character {self._start + 1} of {len(self._text)}: {why}")

    def _skip_blanks(self) -> None:
        text = self._text
        while self._at < len(text):
            if text[self._at] <= " ":
                self._at += 1
            elif text.startswith("/*", self._at):
                end = text.find("*/", self._at + 2)
                self._at = len(text) if end < 0 else end + 2
            elif text[self._at] == "/":  # Java takes one slash, too, as the beginning of a comment
                ends = [end for end in (text.find("\n", self._at), text.find("\r", self._at)) if end >= 0]
                self._at = min(ends, default=len(text))
            else:
                return

    def _run(self, kind: str) -> _Token:
        begin = self._at
        while self._at < len(self._text) and _is_word(self._text[self._at]):
            self._at += 1
        return _Token(kind, self._text[begin:self._at])

    def _quoted(self, quote: str) -> _Token:
        text = self._text
        chars: list[str] = []
        self._at += 1
        while True:
            if self._at == len(text) or text[self._at] in "\r\n":
                del chars, text
                self.refuse("the quote that opens here is not closed on its line")
            char = text[self._at]
            self._at += 1
            if char == quote:
                return _Token(_QUOTED, "".join(chars))
            if char == "\\" and self._at < len(text):
                char = self._escape()
            chars.append(char)

    def _escape(self) -> str:
        char = self._text[self._at]
        self._at += 1
        if char not in _OCTAL:
            return _ESCAPES.get(char, char)
        longest = 3 if char <= "3" else 2  # as \377, and \47 with a 7 behind it
        digits = char
        while len(digits) < longest and self._text[self._at:self._at + 1] in tuple(_OCTAL):
            digits += self._text[self._at]
            self._at += 1
        return chr(int(digits, 8))


def _is_word(char: str) -> bool:
    return char in "._-$" or (char.isascii() and char.isalnum()) or char >= "\xa0"
