"""librdkafka's names of settings, where one of Java's means the same: they are taken, and one line says Java's.

    sasl.mechanisms=PLAIN          ->   sasl.mechanism=PLAIN
    sasl.username=ada              ->   sasl.jaas.config=...PlainLoginModule required username="ada" password="...";
    sasl.password=...
    ssl.ca.location=/etc/ca.pem    ->   ssl.truststore.location=/etc/ca.pem, ssl.truststore.type=PEM

What has no such name (two files for a key and its certificate, a count of messages for a size) stays an error, with
what to write: other_keys.py.

Road:    properties, variables replaced -> [other names] -> table
Thread:  pure functions.
Source:  librdkafka CONFIGURATION.md (2.x); Java ProducerConfig, SaslConfigs, SslConfigs (4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyproducer.common.errors import ConfigError
from pyproducer.common.jaas import KERBEROS_MODULE, KEY, OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE
from pyproducer.common.secrets import SecretText, SecretValue

_MODULES = {"PLAIN": PLAIN_MODULE, "SCRAM-SHA-256": SCRAM_MODULE, "SCRAM-SHA-512": SCRAM_MODULE}
_SAME = {
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "request.required.acks": "acks",
    "compression.codec": "compression.type",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.ca.location": "ssl.truststore.location",
}
_PEM_STORES = {"ssl.certificate.pem": "ssl.keystore.type", "ssl.key.pem": "ssl.keystore.type",
               "ssl.ca.pem": "ssl.truststore.type", "ssl.ca.location": "ssl.truststore.type"}
_SOCKET_BUFFERS = {"socket.send.buffer.bytes": "send.buffer.bytes",
                   "socket.receive.buffer.bytes": "receive.buffer.bytes"}
_ALWAYS_SO = {
    "enable.ssl.certificate.verification": ("true",), "socket.keepalive.enable": ("true",),
    "socket.nagle.disable": ("true",), "api.version.request": ("true",), "log.connection.close": ("false",),
    "sasl.oauthbearer.method": ("default", "oidc"), "sasl.oauthbearer.grant.type": ("client_credentials",),
    "ssl.ca.location": ("probe",), "compression.level": ("-1",),
}
_CODECS_WITHOUT_LEVEL = ("", "none", "snappy")
_FAST_LZ4 = ("0", "1", "2")  # of liblz4's levels those of the fast compressor
_FAST_LZ4_OF_JAVA = 9
_CODECS_WITH_LEVEL = ("gzip", "lz4", "zstd")
_PARTITIONERS = ("consistent_random", "murmur2_random", "fnv1a_random")
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_BEARER_RETRIEVER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
_ENDPOINT = "ssl.endpoint.identification.algorithm"


_LEVELS = tuple(f"compression.{codec}.level" for codec in _CODECS_WITH_LEVEL)
JAVAS: dict[str, tuple[str, ...]] = {
    **{name: (java,) for name, java in {**_SAME, **_SOCKET_BUFFERS}.items()},
    "message.timeout.ms": ("delivery.timeout.ms",), "queue.buffering.max.kbytes": ("buffer.memory",),
    "compression.level": _LEVELS, "partitioner": ("partitioner.class",),
    "sasl.oauthbearer.grant.type": ("sasl.oauthbearer.jwt.retriever.class",),
    **dict.fromkeys(("sasl.username", "sasl.password", "sasl.kerberos.keytab", "sasl.kerberos.principal",
                     "sasl.oauthbearer.extensions"), (KEY,)),
}
"""Java's names of librdkafka's that are taken; where there are several, the values say which."""
_TOGETHER = {"sasl.username": "sasl.password", "sasl.password": "sasl.username",
             "sasl.kerberos.keytab": "sasl.kerberos.principal", "sasl.kerberos.principal": "sasl.kerberos.keytab"}


class Translated(NamedTuple):
    """Settings under Java's names.

    Attributes:
        props: All of them.
        given_as: The names by which those of them were given that came by another: Java's name -> theirs.
        always_so: Those that were left out, for they say what is always so.
        refusals: What could not be taken.
    """

    props: dict[str, object]
    given_as: dict[str, tuple[str, ...]]
    always_so: tuple[str, ...]
    refusals: list[ConfigError]

    def in_their_words(self, refusal: ConfigError) -> ConfigError:
        """Return an error with the name by which its setting was given."""
        names = self.given_as.get(refusal.key)
        if not names:
            return refusal
        return ConfigError(names[0], refusal.value, f"{refusal.why} (Java's name of it is {refusal.key})")

    def line(self) -> str:
        """Return what the log says of it; "" where every name was Java's."""
        taken = [f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} {key}"
                 for key, names in self.given_as.items()]
        if self.always_so:
            taken.append(f"{', '.join(self.always_so)} left out, for that is always so")
        return f"Settings by librdkafka's names; Java's are: {'; '.join(taken)}" if taken else ""


def translated(props: Mapping[str, object]) -> Translated:
    """Return settings with librdkafka's names of them replaced by Java's.

    Args:
        props: Settings as they were given, guarded, with their variables replaced.
    """
    work = _Translation(props)
    if any(isinstance(key, str) and key in _STEPS for key in props):
        for key in props:
            step = _STEPS.get(key) if isinstance(key, str) else None
            if step is not None:
                step(work, key)
    return Translated(work.props, work.given_as, tuple(work.always_so), work.refusals)


def laid_over(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    """Return settings with others above them, which win by whatever name: what is below them by another name is gone.

    Args:
        below: Settings as they were given; two names of librdkafka's that are one of Java's together stay together.
        above: The same.
    """
    def is_replaced(key: str) -> bool:
        return any(other != key and _TOGETHER.get(key) != other and not meant.isdisjoint((key, *JAVAS.get(key, ())))
                   for other, meant in meant_above)

    meant_above = [(key, {key, *JAVAS.get(key, ())}) for key in above]
    return {**{key: value for key, value in below.items() if not is_replaced(key)}, **above}


def is_given(props: Mapping[str, object], java: str) -> bool:
    """Whether a setting of Java's is among those that were given, by whatever name."""
    return java in props or any(java in JAVAS.get(key, ()) for key in props)


class _Translation:
    """One run. Its `repr` shows nothing."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self.given = given
        self.props: dict[str, object] = dict(given)
        self.given_as: dict[str, tuple[str, ...]] = {}
        self.always_so: list[str] = []
        self.refusals: list[ConfigError] = []

    def text(self, key: str) -> str:
        value = self.given.get(key)
        return str(value).strip() if not isinstance(value, SecretValue) and value is not None else ""

    def put(self, names: tuple[str, ...], java: str, value: object) -> None:
        """Put a value under Java's name; the names by which it was given are gone."""
        for name in names:
            self.props.pop(name, None)
        if java in self.given_as and java not in self.given:
            self.refuse(names[0], f"{self.given_as[java][0]} is given, too, and both mean {java}: leave one out")
        elif java in self.given and java not in names and str(self.given[java]).strip() != str(value).strip():
            self.refuse(names[0], f"{java} is given, too, which is Java's name of it: leave one of them out")
        else:
            self.props[java] = value
            self.given_as[java] = names

    def leave_out(self, name: str) -> None:
        self.props.pop(name, None)
        self.always_so.append(f"{name} = {self.text(name)}")

    def refuse(self, name: str, why: str) -> None:
        self.props.pop(name, None)
        self.refusals.append(ConfigError(name, self.given[name], why))


def _same(work: _Translation, key: str) -> None:
    if work.text(key).lower() in _ALWAYS_SO.get(key, ()):
        work.leave_out(key)
        return
    work.put((key,), _SAME[key], work.given[key])
    store = _PEM_STORES.get(key)
    if store is not None and store not in work.given and work.given[key] is not None:
        work.props[store] = "PEM"


def _always(work: _Translation, key: str) -> None:
    """Leave out what is always so; any other value stays, and is refused as a name that nobody knows."""
    if work.text(key).lower() in _ALWAYS_SO[key]:
        work.leave_out(key)
    elif key == "sasl.oauthbearer.grant.type" and work.text(key) == _JWT_BEARER:
        work.put((key,), "sasl.oauthbearer.jwt.retriever.class", _BEARER_RETRIEVER)


def _timeout(work: _Translation, key: str) -> None:
    value: object = work.given[key]
    work.put((key,), "delivery.timeout.ms", 2**31 - 1 if work.text(key) == "0" else value)


def _kbytes(work: _Translation, key: str) -> None:
    text = work.text(key)
    if not text.isdecimal():
        work.refuse(key, "it must be a whole number of KiB")
    else:
        work.put((key,), "buffer.memory", int(text) * 1024)


def _socket_buffer(work: _Translation, key: str) -> None:
    work.put((key,), _SOCKET_BUFFERS[key], -1 if work.text(key) == "0" else work.given[key])


def _level(work: _Translation, key: str) -> None:
    codec = work.text("compression.type") or work.text("compression.codec")
    level = work.text(key)
    if level in _ALWAYS_SO[key] or (level == "0" and codec in _CODECS_WITHOUT_LEVEL):
        work.leave_out(key)
    elif codec == "lz4" and level in _FAST_LZ4:
        work.put((key,), "compression.lz4.level", _FAST_LZ4_OF_JAVA)
    elif codec == "lz4" and level == str(_FAST_LZ4_OF_JAVA):
        work.refuse(key, f"lz4's slow compressor at {level} has no number in Java, whose {level} is the fast one: set "
                         "it to 8 or 10 for the slow one, or to 0 for the fast one")
    elif codec == "gzip" and level == "0":
        work.refuse(key, "gzip compresses nothing at 0, which Java does not know: set compression.type to none, or it "
                         "to 1 to 9")
    elif codec in _CODECS_WITH_LEVEL:
        work.put((key,), f"compression.{codec}.level", work.given[key])
    else:
        work.refuse(key, f"compression.type is {codec or 'none'}, which has no level: leave it out")


def _partitioner(work: _Translation, key: str) -> None:
    name = work.text(key)
    if name in _PARTITIONERS:
        work.put((key,), "partitioner.class", name)
    elif f"{name}_random" in _PARTITIONERS:
        work.refuse(key, "this value has no counterpart, for it puts all records without a key into one partition: use "
                         f"{name}_random, which spreads them and does with keys what it does")
    elif name == "random":
        work.refuse(key, "this value has no counterpart: use partitioner.ignore.keys=true, which spreads records "
                         "whatever their keys are")


def _endpoint(work: _Translation, key: str) -> None:
    if work.text(key).lower() == "none":
        work.props[key] = ""
        work.given_as[key] = (f"{key} = none",)


def _password(work: _Translation, key: str) -> None:
    names = ("sasl.username", "sasl.password")
    if not _is_login(work, key, names):
        return
    mechanism = _mechanism(work)
    if mechanism not in _MODULES:
        work.props.pop(names[1], None)
        given = f"and sasl.mechanism is {mechanism}" if mechanism else "and GSSAPI is the default"
        work.refuse(names[0], f"user and password go with a mechanism, {given}: set sasl.mechanism to "
                              f"{', '.join(_MODULES)}")
    else:
        options = {"username": str(work.given[names[0]]), "password": str(work.given[names[1]])}
        work.put(names, KEY, _jaas(_MODULES[mechanism], options))


def _kerberos(work: _Translation, key: str) -> None:
    names = ("sasl.kerberos.keytab", "sasl.kerberos.principal")
    if not _is_login(work, key, names):
        return
    mechanism = _mechanism(work)
    if mechanism not in ("", "GSSAPI"):
        work.props.pop(names[1], None)
        work.refuse(names[0], f"keytab and principal go with GSSAPI, and sasl.mechanism is {mechanism}")
    else:
        work.put(names, KEY, _jaas(KERBEROS_MODULE, {
            "useKeyTab": "true", "storeKey": "true", "keyTab": work.text(names[0]), "principal": work.text(names[1])}))


def _is_login(work: _Translation, key: str, names: tuple[str, str]) -> bool:
    """Return whether two settings that make one login are to be translated now; refuse one without the other."""
    if key == names[1] and names[0] in work.given:
        return False  # both went with the first
    missing = next((name for name in names if not work.text(name)), None)
    if missing is None:
        return True
    work.refuse(key, f"{missing} is {'empty, or no text' if missing in work.given else 'missing'}: {names[0]} and "
                     f"{names[1]} log in together, and are sasl.jaas.config in Java")
    for name in names:
        work.props.pop(name, None)
    return False


def _extensions(work: _Translation, key: str) -> None:
    pairs = [pair.partition("=") for pair in work.text(key).split(",")]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        work.refuse(key, "write NAME=VALUE,NAME=VALUE")
    else:
        work.put((key,), KEY, _jaas(OAUTHBEARER_MODULE, {f"extension_{name.strip()}": value.strip()
                                                         for name, _, value in pairs}))


def _mechanism(work: _Translation) -> str:
    return (work.text("sasl.mechanism") or work.text("sasl.mechanisms")).upper()


def _jaas(module: str, options: Mapping[str, str]) -> SecretText:
    return SecretText(f"{module} required {' '.join(f'{name}={_quoted(text)}' for name, text in options.items())};")


def _quoted(text: str) -> str:
    for letter, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(letter, escaped)
    return f'"{text}"'


_STEPS: dict[str, Callable[[_Translation, str], None]] = {
    **dict.fromkeys(_ALWAYS_SO, _always), **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_SOCKET_BUFFERS, _socket_buffer), "message.timeout.ms": _timeout,
    "queue.buffering.max.kbytes": _kbytes, "compression.level": _level, "partitioner": _partitioner,
    _ENDPOINT: _endpoint, "sasl.username": _password, "sasl.password": _password,
    "sasl.kerberos.keytab": _kerberos, "sasl.kerberos.principal": _kerberos,
    "sasl.oauthbearer.extensions": _extensions,
}
