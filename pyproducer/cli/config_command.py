"""`python -m pyproducer config FILE`: what a client.properties comes to.

Road:    command line -> [config] -> producer/config/effective.py
Thread:  the main thread.
Source:  ours.
"""

from __future__ import annotations

import json
import logging
import os
import sys

import click

from pyproducer.cli.client_settings import pairs
from pyproducer.common.class_names import import_object
from pyproducer.common.errors import ConfigError
from pyproducer.common.secrets import shown
from pyproducer.network.sasl.login import login_for
from pyproducer.network.ssl_context import build_client_ssl_context
from pyproducer.producer.config import ProducerConfig
from pyproducer.producer.config.effective import (
    EffectiveConfig,
    GivenSettings,
    Need,
    effective,
    is_java_name,
    read_given,
)
from pyproducer.producer.config.producer_config import classes_of, is_named_by_user
from pyproducer.producer.serializers import resolve_serializer

REFUSED = 1
_TOLD_BELOW = ("These settings have no effect", "No setting is called", "security.protocol = ")


class _Warnings(logging.Handler):
    """Keeps what the settings warn of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if not text.startswith(_TOLD_BELOW):
            self.texts.append(text)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--property", "-P", "overrides", multiple=True, metavar="KEY=VALUE", callback=pairs,
              help="A setting that stands above the file's; may be given several times.")
@click.option("--given", "is_given_only", is_flag=True, help="Leave out what has its default.")
@click.option("--load", "loads", is_flag=True, help="Import the classes and functions of your own that the file names; "
              "importing runs their code.")
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
def config(file: str, overrides: dict[str, str], is_given_only: bool, loads: bool, is_json: bool) -> None:
    """Say what a producer makes of a client.properties FILE, without connecting to anything.

    Each setting has its value and where that comes from: the default, a line of the file, a provider of variables, or
    other settings. Secrets are hidden. Then come settings that have no effect, and why, and what is needed besides.
    Nothing that the file names is imported, unless --load asks for it.

    Exit status: 0; 1 where the settings are refused or something they need is not there; 2 where the command line is
    wrong.

    \b
    Example:
      pyproducer config client.properties --given -P linger.ms=20
    """  # noqa: D301 - click reads the backspace
    warnings = _Warnings()
    root = logging.getLogger("pyproducer")
    root.addHandler(warnings)
    root.propagate = False
    try:
        found, refusal = _read(file, overrides, loads=loads)
    finally:
        root.propagate = True
        root.removeHandler(warnings)
    missing = [need for need in found.needs if need.is_there is False] if found is not None else []
    if found is not None and is_given_only:
        found = found._replace(settings=tuple(row for row in found.settings if row.origin != "default"))
    if is_json:
        click.echo(_json(file, found, warnings.texts, refusal))
    else:
        _print(file, found, warnings.texts, refusal)
    sys.exit(REFUSED if refusal or missing else 0)


def _read(file: str, overrides: dict[str, str], *,
          loads: bool) -> tuple[EffectiveConfig | None, dict[str, str] | None]:
    """Return what the settings come to, and why they are refused: one of them, or both where only files are wrong."""
    given = GivenSettings({}, {})
    found = None
    try:
        given = read_given(file, overrides)
        settings = ProducerConfig(given.props, load=import_object if loads else _refuse_to_load)
        found = effective(settings, given.origins)
        if not loads:
            found = found._replace(needs=(*found.needs, *_not_loaded(settings)))
        if all(need.is_there is not False for need in found.needs):
            with settings.hiding_answers():
                _try_to_load(settings, loads=loads)
    except ConfigError as error:
        if error.others:
            error = error.in_place(lambda key: given.origins.get(key, ""))
            return found, {"key": error.key, "place": "", "why": str(error)}
        return found, {"key": error.key, "place": given.origins.get(error.key, ""), "why": str(error)}
    except OSError as error:
        return found, {"key": "", "place": "", "why": f"{error.strerror or error}: {error.filename or file}"}
    return found, None


_OF_LOGINS = ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class",
              "sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class",
              "pyproducer.oauth.token.provider")


def _refuse_to_load(key: str, name: str) -> object:
    raise ConfigError(key, name, "it is a class of your own, whose module is imported only with --load: that runs its "
                                 "code")


def _is_own(value: object) -> bool:
    """Whether it is the name of something of the user's, and not of Java's."""
    return isinstance(value, str) and is_named_by_user(value) and not is_java_name(value)


def _not_loaded(settings: ProducerConfig) -> list[Need]:
    """Return what the settings name that would have to be imported."""
    named = [value for value in classes_of(settings) if _is_own(value)]
    if settings.security_protocol.startswith("SASL_"):
        named += [settings[key] for key in _OF_LOGINS if _is_own(settings[key])]
    return [Need(f"{shown(name)}, which was not imported: --load does", None) for name in named]


def _try_to_load(settings: ProducerConfig, *, loads: bool) -> None:
    """Load the stores and make the login; load the classes that the settings name, where that is asked for.

    Raises:
        ConfigError: One cannot be loaded.
    """
    for value in classes_of(settings):
        if loads and isinstance(value, str) and is_named_by_user(value):
            import_object("interceptor.classes", value)
    for key in ("key.serializer", "value.serializer"):
        if isinstance(settings[key], str) and not is_named_by_user(settings[key]):
            resolve_serializer(settings[key], key, settings.originals)
    if settings.security_protocol in ("SSL", "SASL_SSL"):
        build_client_ssl_context(settings)
    if loads or not any(_is_own(settings[key]) for key in _OF_LOGINS):
        login = login_for(settings)
        if login is not None:
            login.close()  # it was not started


def _json(file: str, found: EffectiveConfig | None, warnings: list[str], refusal: dict[str, str] | None) -> str:
    answer: dict[str, object] = {"file": os.fspath(file), "refused": refusal, "warnings": warnings}
    if found is not None:
        answer["settings"] = [row._asdict() for row in found.settings]
        answer["no_effect"] = [row._asdict() for row in found.unused]
        answer["needs"] = [row._asdict() for row in found.needs]
    return json.dumps(answer, indent=2)


def _print(file: str, found: EffectiveConfig | None, warnings: list[str], refusal: dict[str, str] | None) -> None:
    if found is not None:
        width = max((len(row.key) for row in found.settings), default=0)
        for row in found.settings:
            value = "(none)" if row.value is None else row.value or "(empty)"
            click.echo(f"{row.key:{width}}  {value}  ({row.origin})")
        _section("No effect", (f"{row.key}{row.origin and f' ({row.origin})'}: {row.why}" for row in found.unused))
        _section("Needs", map(_need_text, found.needs))
    _section("Warnings", warnings)
    if refusal is not None:
        place = f", {refusal['place']}" if refusal["place"] else ""
        click.echo(f"pyproducer config: {file}{place}: {refusal['why']}", err=True)


def _section(title: str, lines: object) -> None:
    texts = list(lines)  # type: ignore[call-overload]  # any iterable of texts
    if texts:
        click.echo(f"\n{title}:")
        for text in texts:
            click.echo(f"  {text}")


def _need_text(need: Need) -> str:
    if need.is_there is None:
        return need.what
    return f"{need.what}: there" if need.is_there else f"{need.what}: MISSING; {need.how}"
