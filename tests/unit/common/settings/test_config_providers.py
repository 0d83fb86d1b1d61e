"""Variables in values are resolved as Java's providers do, only where config.providers names one."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping, Set
from pathlib import Path

import pytest

from pyproducer.common.class_names import import_object
from pyproducer.common.errors import ConfigError
from pyproducer.common.secrets import SecretText
from pyproducer.common.settings.config_providers import resolve_variables

JAVA = "org.apache.kafka.common.config.provider."
ENV = {"config.providers": "env", "config.providers.env.class": f"{JAVA}EnvVarConfigProvider"}
SECRET = "Zx9-never-shown"


def provider(kind: str, **params: str) -> dict[str, object]:
    return {"config.providers": "p", "config.providers.p.class": f"{JAVA}{kind}ConfigProvider",
            **{f"config.providers.p.param.{name}": value for name, value in params.items()}}


def resolve(props: Mapping[str, object]) -> dict[str, object]:
    return resolve_variables(props, import_object).props


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SECRET", SECRET)
    monkeypatch.setenv("KAFKA_EMPTY", "")


@pytest.mark.parametrize(("text", "value"), [
    ("${env:KAFKA_SECRET}", SECRET), ("a${env:KAFKA_SECRET}b", f"a{SECRET}b"),
    ("${env:KAFKA_SECRET}${env:KAFKA_SECRET}", SECRET * 2), ("${env:KAFKA_EMPTY}", ""),
    ("${env::KAFKA_SECRET}", SECRET), ("x ${vault:a:b} ${env:KAFKA_SECRET}", f"x ${{vault:a:b}} {SECRET}"),
    ("${KAFKA_SECRET}", "${KAFKA_SECRET}"), ("plain", "plain"), ("$", "$"),
])
def test_value_when_it_has_variables_then_they_are_replaced(text: str, value: str) -> None:
    assert resolve({**ENV, "k": text})["k"] == value


def test_resolved_value_when_shown_then_hidden_and_written_text_is_kept() -> None:
    resolved = resolve_variables({**ENV, "k": "a${env:KAFKA_SECRET}", "other": "b"}, import_object)
    assert isinstance(resolved.props["k"], SecretText)
    assert resolved.props["other"] == "b"
    assert resolved.written == {"k": "a${env:KAFKA_SECRET}"}
    assert resolved.providers == {"k": ("env",)}
    assert SECRET not in repr(resolved)


# As Kafka's documentation and Strimzi's name providers.
@pytest.mark.parametrize("name", ["env", "file", "dir", "directory", "secrets"])
def test_variable_when_config_providers_does_not_name_it_then_it_stays_with_a_warning(
        name: str, caplog: pytest.LogCaptureFixture) -> None:
    props = {"k": f"${{{name}:KAFKA_SECRET}}", "l": "${x:y}"}
    with caplog.at_level(logging.WARNING):
        assert resolve(props) == props
    assert [record.getMessage() for record in caplog.records] == [
        f"k holds a variable ${{{name}:...}} as plain text: config.providers does not name '{name}'"]


@pytest.mark.parametrize(("text", "why"), [
    ("${env:KAFKA_ABSENT}", "no value for 'KAFKA_ABSENT': set it in the environment of this process"),
    ("${env:path:KAFKA_SECRET}", r"an environment variable has no path: write \$\{env:NAME\}")])
def test_environment_when_it_cannot_answer_then_the_error_says_why(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        resolve({**ENV, "k": text})
    assert (raised.value.key, raised.value.value) == ("k", text)


def test_environment_when_a_name_is_not_allowed_then_refused() -> None:
    props = {**provider("EnvVar"), "config.providers.p.param.allowlist.pattern": "KAFKA_.*"}
    assert resolve({**props, "k": "${p:KAFKA_SECRET}"})["k"] == SECRET
    with pytest.raises(ConfigError, match=r"allowlist\.pattern does not match HOME"):
        resolve({**props, "k": "${p:HOME}"})
    with pytest.raises(ConfigError, match=r"EnvVarConfigProvider'.*is no regular expression"):
        resolve({**props, "config.providers.p.param.allowlist.pattern": "("})


def test_file_when_asked_then_a_key_of_java_properties(tmp_path: Path) -> None:
    file = tmp_path / "secret.properties"
    file.write_text(f"user=ada\npass\\ word={SECRET}\n")
    assert resolve({**provider("File"), "k": f"${{p:{file}:user}}/${{p:{file}:pass word}}"})["k"] == f"ada/{SECRET}"
    with pytest.raises(ConfigError, match=f"no value for 'other': look into {file}"):
        resolve({**provider("File"), "k": f"${{p:{file}:other}}"})
    with pytest.raises(ConfigError, match="No such file"):
        resolve({**provider("File"), "k": f"${{p:{file}x:user}}"})
    with pytest.raises(ConfigError, match="the path is missing"):
        resolve({**provider("File"), "k": "${p:user}"})


def test_directory_when_asked_then_the_text_of_a_file_without_its_line_end(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "password").write_text(f"{SECRET}\n")
    (tmp_path / "in" / "folder").mkdir()
    (tmp_path / "outside").write_text("x")
    props = provider("Directory")
    assert resolve({**props, "k": f"${{p:{tmp_path}/in:password}}"})["k"] == SECRET
    for name in ("absent", "folder", "../outside", "."):
        with pytest.raises(ConfigError, match="no value for"):
            resolve({**props, "k": f"${{p:{tmp_path}/in:{name}}}"})


def test_paths_when_not_below_the_allowed_ones_then_refused(tmp_path: Path) -> None:
    for name in ("a", "ab"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "password").write_text(SECRET)
    props = {**provider("Directory"), "config.providers.p.param.allowed.paths": f"/nonexistent/..,{tmp_path}/a"}
    with pytest.raises(ConfigError, match="does not exist"):
        resolve({**props, "config.providers.p.param.allowed.paths": f"{tmp_path}/none"})
    with pytest.raises(ConfigError, match="a is not absolute"):
        resolve({**props, "config.providers.p.param.allowed.paths": "a"})
    props["config.providers.p.param.allowed.paths"] = f"{tmp_path}/a"
    assert resolve({**props, "k": f"${{p:{tmp_path}/a:password}}"})["k"] == SECRET
    for path in (f"{tmp_path}/ab", f"{tmp_path}/a/../ab", str(tmp_path)):
        with pytest.raises(ConfigError, match=r"is not below its allowed\.paths"):
            resolve({**props, "k": f"${{p:{path}:password}}"})


class VaultProvider:
    """One of the user's own."""

    def configure(self, params: Mapping[str, str]) -> None:
        self.params = params

    def get(self, path: str, keys: Set[str]) -> Mapping[str, str]:
        if path == "broken":
            raise RuntimeError("the vault is away")
        return {key: f"{path}-{key}-{self.params['url']}" for key in keys}


@pytest.mark.parametrize("given", [VaultProvider, f"{__name__}:VaultProvider"])
def test_provider_when_it_is_the_users_own_then_configured_and_asked(given: object) -> None:
    props = {"config.providers": ["v"], "config.providers.v.class": given, "config.providers.v.param.url": "u"}
    assert resolve({**props, "k": "${v:a/b:c}"})["k"] == "a/b-c-u"
    with pytest.raises(ConfigError, match="its provider fails: the vault is away"):
        resolve({**props, "k": "${v:broken:c}"})


@pytest.mark.parametrize(("given", "why"), [
    (None, "EnvVarConfigProvider"), ("", "EnvVarConfigProvider"), ("com.example.Vault", "there is no such provider"),
    (f"{JAVA}OtherConfigProvider", "there is no such provider"), ("no_such_module:Vault", "cannot be imported"),
    (object, "it has no get")])
def test_provider_when_it_cannot_be_made_then_the_error_names_those_there_are(given: object, why: str) -> None:
    props = {"config.providers": "p", **({} if given is None else {"config.providers.p.class": given})}
    with pytest.raises(ConfigError, match=why) as raised:
        resolve(props)
    assert raised.value.key == "config.providers.p.class"


def test_error_when_a_later_variable_fails_then_no_frame_shows_the_answer_before() -> None:
    with pytest.raises(ConfigError) as raised:
        resolve({**ENV, "a": "${env:KAFKA_SECRET}", "k": "${env:KAFKA_SECRET}${env:KAFKA_ABSENT}"})
    shown = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    assert SECRET not in "".join(shown.format())


def test_folder_when_a_file_is_no_text_then_no_frame_holds_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(SECRET.encode() + b"\xff")
    with pytest.raises(ConfigError, match="can't decode byte") as caught:
        resolve({**provider("Directory"), "k": f"${{p:{tmp_path}:key}}"})
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert SECRET not in "".join(told.format())
