"""Every set of properties in docs/logins.md makes a login."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any

import javaproperties
import pytest

from pyproducer.network.sasl import aws_msk_iam, gssapi, jwt_bearer
from pyproducer.network.sasl.login import login_for
from pyproducer.producer.config import ProducerConfig

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "logins.md").read_text(encoding="ascii")
EXAMPLES = re.findall(r"^```properties\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_properties_on_the_page_when_they_are_read_then_they_make_a_login(
        text: str, monkeypatch: Any, tmp_path: Path) -> None:
    # None of them is used here, so nobody needs to have installed all of them.
    for module in (aws_msk_iam, gssapi):
        monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(jwt_bearer, "_import_jwt", lambda: None)
    key = tmp_path / "key.pem"
    key.write_text("-----BEGIN PRIVATE KEY-----")
    props = javaproperties.load(StringIO(text.replace("/etc/kafka/key.pem", str(key))))
    login = login_for(ProducerConfig({"bootstrap.servers": "b-1.x.kafka.eu-west-1.amazonaws.com:9098", **props}))
    assert login is not None
    assert login.mechanism == props["sasl.mechanism"]
    assert not login.is_ready
    login.close()


def test_page_when_it_is_searched_then_it_has_the_examples() -> None:
    assert len(EXAMPLES) == 8
