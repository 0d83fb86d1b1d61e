"""What a configuration comes to: each value with its origin, what has no effect and why, what it needs.

Road:    file, overrides -> [effective] -> the command `config`
Thread:  reads files that the settings name; connects to nothing.
Source:  ours; the origins are those of Java's AbstractConfig and ConfigTransformer.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

from pyproducer.common.cluster import address_text
from pyproducer.common.jaas import KERBEROS_MODULE
from pyproducer.common.secrets import shown
from pyproducer.common.settings.config_providers import PREFIX as PROVIDER_PREFIX
from pyproducer.common.settings.definition import Support
from pyproducer.common.settings.properties import read_property_lines
from pyproducer.network.sasl.vendor_tokens import STRIMZI_HANDLER, is_installed, needed_module, strimzi_options
from pyproducer.producer.config import other_keys
from pyproducer.producer.config.other_names import laid_over
from pyproducer.producer.config.producer_config import ProducerConfig
from pyproducer.producer.config.security import login_module, settings_not_used
from pyproducer.producer.config.table import CONFIG_TABLE
from pyproducer.producer.serializers import encodings_not_read

_WHY_OF_SUPPORT = {
    Support.JVM_ONLY: "only a JVM can use it",
    Support.VALIDATOR_ONLY: "only a broker that checks tokens uses it",
    Support.INERT: "nothing here could act on it",
    Support.NOT_YET: "nothing reads it in this version",
}
_WHY_OF_OTHERS = (
    (other_keys.CONSUMER_KEYS | other_keys.STRING_DESERIALIZER_KEYS, "a consumer's setting"),
    (other_keys.ADMIN_KEYS, "an admin client's setting"),
    (other_keys.JVM_KEYS, "only a JVM can use it"),
    (other_keys.NEWER_KEYS, "newer than Kafka 4.1, and nothing here acts on it"),
)
_PACKAGES = {  # extra -> modules of it
    "tls": ("cryptography",), "jks": ("jks",), "aws": ("botocore",), "oauth": ("jwt", "cryptography"),
    "kerberos": ("gssapi",),
}
_JAVA_HANDLERS = (  # of tokens, that are understood
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
)
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_KINDS = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JKS"}


class EffectiveSetting(NamedTuple):
    """One setting.

    Attributes:
        key: Java's name.
        value: Its value as it may be shown, as text of a properties file; None where there is none.
        origin: "default", "line N", "--property", "derived", or with a provider "line N, provider env".
    """

    key: str
    value: str | None
    origin: str


class Unused(NamedTuple):
    """A key that was given and changes nothing."""

    key: str
    origin: str
    why: str


class Need(NamedTuple):
    """Something that a configuration needs besides itself.

    Attributes:
        what: In words.
        is_there: Whether it is; None where only using it can tell.
        how: How to get it, where it is not there.
    """

    what: str
    is_there: bool | None
    how: str = ""


class EffectiveConfig(NamedTuple):
    """All of it, in the order of the table."""

    settings: tuple[EffectiveSetting, ...]
    unused: tuple[Unused, ...]
    needs: tuple[Need, ...]


class GivenSettings(NamedTuple):
    """What was given, and where each key stands."""

    props: dict[str, object]
    origins: dict[str, str]


def read_given(path: str | os.PathLike[str], overrides: Mapping[str, str]) -> GivenSettings:
    """Return the settings of a file and those that stand above it.

    Raises:
        ConfigError: The file is not text in Java's format.
        OSError: The file cannot be read.
    """
    lines = read_property_lines(path)
    origins = {key: f"line {found.line}" for key, found in lines.items()}
    origins.update(dict.fromkeys(overrides, "--property"))
    return GivenSettings(laid_over(CONFIG_TABLE.guarded({key: found.value for key, found in lines.items()}),
                                   CONFIG_TABLE.guarded(overrides)), origins)


def effective(config: ProducerConfig, origins: Mapping[str, str]) -> EffectiveConfig:
    """Return what a configuration comes to.

    Args:
        config: The settings, read.
        origins: Where each key that was given stands.
    """
    settings = tuple(EffectiveSetting(key, text, _origin(key, config, origins))
                     for key, text in config.shown().items())
    return EffectiveConfig(settings, tuple(_unused(config, origins)), tuple(_needs(config)))


def _origin(key: str, config: ProducerConfig, origins: Mapping[str, str]) -> str:
    origin = config.origin(key)
    if origin.kind in ("default", "derived"):
        return origin.kind
    place = ", ".join(dict.fromkeys(origins[name] for name in config.names_of(key) if name in origins)) or "derived"
    return f"{place}, provider {origin.detail}" if origin.kind == "provider" else place


def _unused(config: ProducerConfig, origins: Mapping[str, str]) -> Iterator[Unused]:
    values = dict(config)
    why: dict[str, str] = {}
    for key in config.without_effect:
        row = CONFIG_TABLE.get(key)
        why[key] = _why_other(key) if row is None else _WHY_OF_SUPPORT[row.support]
    for key in config.strangers:
        why[key] = "no setting has this name; only classes of your own with configure() get to see it"
    for key in encodings_not_read(config.originals, config.key_serializer, config.value_serializer):
        why[key] = "only StringSerializer reads it, and it is not named"
    for key in settings_not_used(values, config.explicit):
        why.setdefault(key, f"security.protocol = {config.security_protocol} does not use it")
    for key, reason in _idle(values):
        if key in config.explicit:
            why.setdefault(key, reason)
    providers = values["config.providers"]
    for key in origins:
        if key.startswith(PROVIDER_PREFIX) and not key.removeprefix(PROVIDER_PREFIX).startswith(
                tuple(f"{name}." for name in providers)):
            why[key] = "config.providers does not name it"
    for key in sorted(why):
        yield Unused(key, origins.get(key, ""), why[key])


def _why_other(key: str) -> str:
    for keys, why in _WHY_OF_OTHERS:
        if key in keys:
            return why
    return "a setting of a schema registry's client, or of a vendor's own classes"


def _idle(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield settings that others switch off."""
    for codec in ("gzip", "lz4", "zstd"):
        if values["compression.type"] != codec:
            yield f"compression.{codec}.level", f"compression.type = {values['compression.type']} does not use it"
    if values["transactional.id"] is None:
        yield "transaction.timeout.ms", "there is no transactional.id"
        yield "transaction.two.phase.commit.enable", "there is no transactional.id"
    if not values["partitioner.rack.aware"]:
        yield "client.rack", "partitioner.rack.aware = true would use it"
    yield from _idle_beside(_partitioner_name(values))
    if values["ssl.engine.factory.class"] is not None:
        for key in values:
            if key.startswith("ssl.") and key != "ssl.engine.factory.class":
                yield key, "ssl.engine.factory.class says all of it"
    mechanism = values["sasl.mechanism"]
    for family, of_it in (("sasl.kerberos.", ("GSSAPI",)), ("sasl.oauthbearer.", ("OAUTHBEARER",)),
                          ("sasl.login.refresh.", ("OAUTHBEARER", "AWS_MSK_IAM"))):
        if values["security.protocol"].startswith("SASL_") and mechanism not in of_it:
            for key in values:
                if key.startswith(family):
                    yield key, f"sasl.mechanism = {mechanism} does not use it"


def _partitioner_name(values: Mapping[str, Any]) -> str:
    """Return the last word of the partitioner's name; empty where it has none."""
    value = values["partitioner.class"]
    if value is None:  # as resolve_partitioner has it
        return "uniform_sticky" if values["partitioner.ignore.keys"] else "default"
    name: str = value if isinstance(value, str) else getattr(value, "__name__", "")
    return name.rpartition(".")[2]


def _idle_beside(partitioner: str) -> Iterator[tuple[str, str]]:
    """Yield settings of other partitioners."""
    if partitioner in ("UniformStickyPartitioner", "uniform_sticky"):
        return
    for key in ("partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms",
                "partitioner.ignore.keys"):
        yield key, "only partitioner.class = UniformStickyPartitioner uses it"
    if partitioner not in ("DefaultPartitioner", "default"):
        yield "partitioner.rack.aware", ("only partitioner.class = DefaultPartitioner, or UniformStickyPartitioner, "
                                         "uses it")


def _needs(config: ProducerConfig) -> Iterator[Need]:
    addresses = ", ".join(address_text(*address) for address in config.bootstrap_servers)
    if config.origin("bootstrap.servers").kind == "provider":
        addresses = str(config.origin("bootstrap.servers").shown)
    yield Need(f"a connection to {addresses}, and to the brokers they name", None)
    protocol = config.security_protocol
    if protocol in ("SSL", "SASL_SSL") and config["ssl.engine.factory.class"] is None:
        yield from _needs_of_tls(config)
    if protocol.startswith("SASL_"):
        yield from _needs_of_login(config)


def _needs_of_tls(config: ProducerConfig) -> Iterator[Need]:
    kinds = []
    for key in ("ssl.keystore.location", "ssl.truststore.location"):
        location = config[key]
        if location:
            kind = _kind(location)
            kinds.append(kind)
            yield Need(f"the file {config.origin(key).shown} ({key}, {kind})", True)
    if not config["ssl.truststore.location"] and not config["ssl.truststore.certificates"]:
        yield Need("a certificate of the brokers that the system's trust store knows", None)
    if "PKCS12" in kinds:
        yield _package("tls", "a store of type PKCS12")
    if "JKS" in kinds:
        yield _package("jks", "a store of type JKS")


def _kind(location: str) -> str:
    with open(location, "rb") as file:  # that it can be read was checked with the settings
        head = file.read(4)
    return _KINDS.get(head, "PKCS12" if head.startswith(b"\x30") else "PEM")


def _needs_of_login(config: ProducerConfig) -> Iterator[Need]:
    mechanism = config.sasl_mechanism
    entry = login_module(dict(config))
    options: Mapping[str, str] = {} if entry is None else entry.options
    if mechanism == "PLAIN" or mechanism.startswith("SCRAM-"):
        where = "sasl.jaas.config" if entry is not None else "sasl.client.callback.handler.class"
        yield Need(f"an account at the brokers for the user of {where}, with {mechanism}", None)
    elif mechanism == "AWS_MSK_IAM":
        yield Need("credentials of AWS: the environment, ~/.aws, a container's or an instance's role", None)
        yield _package("aws", "roles and profiles of AWS")
    elif mechanism == "GSSAPI":
        key_tab = options.get("keyTab")
        if entry is not None and entry.login_module == KERBEROS_MODULE and key_tab:
            path = shown(str(key_tab)) if config.origin("sasl.jaas.config").kind == "given" else "of a provider"
            yield Need(f"the file {path} (keyTab)", os.access(key_tab.removeprefix("file:"), os.R_OK),
                       "it is not there, or not for this user")
        else:
            yield Need("a ticket in the cache (kinit)", None)
        yield _package("kerberos", "GSSAPI")
    else:
        yield from _needs_of_token(config, options)


def _needs_of_token(config: ProducerConfig, options: Mapping[str, str]) -> Iterator[Need]:
    url = config[_TOKEN_URL]
    handler = config["sasl.login.callback.handler.class"]
    module = needed_module(handler)
    if module is not None:
        vendor = module.partition(".")[0]
        yield Need(f"credentials of {vendor.title()}: the environment, the machine's identity, or those of its command",
                   None)
        yield Need(f"the packages of pyproducer[{vendor}], for tokens of {vendor.title()}", is_installed(module),
                   f"pip install 'pyproducer[{vendor}]'")
    elif handler == STRIMZI_HANDLER:
        meant = strimzi_options(options)
        what = "of oauth.access.token" if meant.access_token else f"from {shown(str(meant.values[_TOKEN_URL]))}"
        is_answer = config.origin("sasl.jaas.config").kind == "provider"
        yield Need("a token of sasl.jaas.config's source" if is_answer else f"a token {what}", None)
    elif isinstance(handler, str) and is_java_name(handler) and handler not in _JAVA_HANDLERS:
        yield Need(f"a Python function in place of {shown(handler)} (sasl.login.callback.handler.class)", False,
                   "name a function of yours that returns a token, as 'module:function', or leave it out and set "
                   "sasl.oauthbearer.token.endpoint.url")
    elif handler == _JAVA_HANDLERS[-1]:
        yield Need("credentials of AWS: the environment, ~/.aws, a container's or an instance's role", None)
        yield _package("aws", "roles and profiles of AWS")
    elif url:
        yield Need(f"a token from {config.origin(_TOKEN_URL).shown}", None)
    elif handler is not None and handler not in _JAVA_HANDLERS:
        yield Need(f"a token from {shown(handler)} (sasl.login.callback.handler.class)", None)
    elif config.get("pyproducer.oauth.token.provider") is not None:
        yield Need("a token from pyproducer.oauth.token.provider", None)
    elif not any(name.startswith("unsecuredLogin") for name in options):
        yield Need("a source of tokens", False, "set sasl.oauthbearer.token.endpoint.url, or "
                   "sasl.login.callback.handler.class to a function of yours that returns a token")
    for name in ("assertion.file", "assertion.private.key.file", "assertion.template.file"):
        path = config[f"sasl.oauthbearer.{name}"]
        if path:
            key = f"sasl.oauthbearer.{name}"
            yield Need(f"the file {config.origin(key).shown} ({key})", os.access(path, os.R_OK),
                       "it is not there, or not for this user")
    if config["sasl.oauthbearer.assertion.private.key.file"]:
        yield _package("oauth", "an assertion that is signed here")


def is_java_name(name: str) -> bool:
    """Whether a name is of a class of Java, as far as one can tell."""
    return ":" not in name and ("." not in name or name.startswith(("org.", "com.", "io.", "software.", "net.")))


def _package(extra: str, what: str) -> Need:
    modules: Iterable[str] = _PACKAGES[extra]
    return Need(f"the packages of pyproducer[{extra}], for {what}", all(find_spec(name) for name in modules),
                f"pip install 'pyproducer[{extra}]'")
