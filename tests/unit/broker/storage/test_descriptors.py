"""The limit of open files: raised as far as the system allows, never lowered."""

from __future__ import annotations

import errno
import importlib.util
import sys

import pytest

from pyproducer.broker.storage import descriptors


class Limits:
    """Stands for the module `resource`: a soft and a hard limit, which a system may refuse to change."""

    RLIMIT_NOFILE = 7

    def __init__(self, soft: int, hard: int, *, infinity: int = -1, refusal: Exception | None = None) -> None:
        self.RLIM_INFINITY = infinity
        self.limits = soft, hard
        self.refusal = refusal
        self.written: list[tuple[int, int]] = []

    def getrlimit(self, kind: int) -> tuple[int, int]:
        assert kind == self.RLIMIT_NOFILE
        return self.limits

    def setrlimit(self, kind: int, limits: tuple[int, int]) -> None:
        assert kind == self.RLIMIT_NOFILE
        self.written.append(limits)
        if self.refusal is not None:
            raise self.refusal
        self.limits = limits


@pytest.fixture(params=[-1, 2**63 - 1], ids=["Linux", "macOS"])
def infinity(request: pytest.FixtureRequest) -> int:
    """What stands for no limit."""
    number = request.param
    assert isinstance(number, int)
    return number


def raised(monkeypatch: pytest.MonkeyPatch, limits: Limits) -> Limits:
    monkeypatch.setattr(descriptors, "resource", limits)
    descriptors.raise_descriptor_limit()
    return limits


@pytest.mark.parametrize(("soft", "hard", "wanted", "of_macos"), [
    (256, 4096, 4096, 4096), (256, 10_240, 10_240, 10_240), (256, 1_048_576, 1_048_576, 10_240),
    (10_239, 1_048_576, 1_048_576, 10_240), (1024, 20_000, 20_000, 10_240)])
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_soft_limit_when_it_is_low_then_it_becomes_the_hard_one_or_what_macos_allows_at_most(
        monkeypatch: pytest.MonkeyPatch, infinity: int, soft: int, hard: int, wanted: int, of_macos: int,
        platform: str) -> None:
    """What macOS allows was the end everywhere: partitions from the 10,200th on had no file, new clients no answer."""
    monkeypatch.setattr(sys, "platform", platform)
    found = of_macos if platform == "darwin" else wanted
    assert raised(monkeypatch, Limits(soft, hard, infinity=infinity)).written == [(found, hard)]


@pytest.mark.parametrize(("platform", "wanted"), [("linux", 1_048_576), ("darwin", 10_240)])
def test_soft_limit_when_there_is_no_hard_one_then_it_becomes_what_the_system_allows_at_most(
        monkeypatch: pytest.MonkeyPatch, infinity: int, platform: str, wanted: int) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert raised(monkeypatch, Limits(256, infinity, infinity=infinity)).written == [(wanted, infinity)]


@pytest.mark.parametrize(("soft", "hard", "platform"), [
    (4096, 4096, "linux"), (10_240, 1_048_576, "darwin"), (65_536, 1_048_576, "darwin"), (20_000, 20_000, "linux")])
def test_soft_limit_when_it_is_high_enough_then_it_stays(
        monkeypatch: pytest.MonkeyPatch, infinity: int, soft: int, hard: int, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert raised(monkeypatch, Limits(soft, hard, infinity=infinity)).written == []


def test_soft_limit_when_there_is_none_then_it_stays(monkeypatch: pytest.MonkeyPatch, infinity: int) -> None:
    assert raised(monkeypatch, Limits(infinity, infinity, infinity=infinity)).written == []


@pytest.mark.parametrize("refusal", [OSError(1, "Operation not permitted"), ValueError("not allowed to raise it")])
def test_limit_when_the_system_refuses_then_it_stays_as_it_was(
        monkeypatch: pytest.MonkeyPatch, refusal: Exception) -> None:
    limits = raised(monkeypatch, Limits(256, 4096, refusal=refusal))
    assert limits.written == [(4096, 4096)]
    assert limits.limits == (256, 4096)


def test_limit_when_the_system_has_none_then_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "resource", None)
    descriptors.raise_descriptor_limit()


def test_limit_when_the_system_has_no_module_for_it_then_files_are_opened_without_one(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has none."""
    monkeypatch.setitem(sys.modules, "resource", None)
    spec = importlib.util.spec_from_file_location("descriptors_without_limits", descriptors.__file__)
    assert spec is not None
    assert spec.loader is not None
    without_limits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(without_limits)
    without_limits.raise_descriptor_limit()
    assert without_limits.reason(OSError(errno.EMFILE, "Too many open files")) == "Too many open files"
