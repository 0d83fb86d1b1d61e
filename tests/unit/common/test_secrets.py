"""What looks like a secret is not shown, wherever it stands; what does not is shown as it is."""

from __future__ import annotations

import base64
import copy
import pickle

import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.common.secrets import HIDDEN, shown, shown_text

BODY = base64.encodebytes(b"\x30\x82\x04\xbd\x02\x01\x00" + bytes(range(200))).decode()
PEM = f"-----BEGIN PRIVATE KEY-----\n{BODY}-----END PRIVATE KEY-----\n"
JAAS = ('org.apache.kafka.common.security.plain.PlainLoginModule required '
        'username="alice" password="hunter2 and more";')
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.hunter2hunter2"


@pytest.mark.parametrize("value", [
    PEM, PEM[:70], PEM.replace("\n", " "), PEM.replace("\n", "\\n"), f"here: {PEM}", BODY, BODY.replace("\n", ""), JAAS,
    JAAS.replace('"', "'"), "clientId=a clientSecret=hunter2", "password = hunter2", JWT, f"Bearer {JWT}",
    PEM.encode(), bytearray(PEM.encode()), {"a": {"b": PEM}}, {"x": "password=hunter2"}, "-----BEGIN WHAT? hunter2",
], ids=lambda value: repr(value)[:30])
def test_value_when_it_holds_a_secret_then_all_of_it_is_hidden(value):
    assert shown(value) == HIDDEN


@pytest.mark.parametrize(("value", "expected"), [
    ("alice:hunter2@host:9092", "[hidden]@host:9092"), ("https://hunter2@host/", "https://[hidden]@host/"),
    ("SASL_SSL://alice:hunter2@host:9092", "SASL_SSL://[hidden]@host:9092"),
    ("https://alice:hunter2@host/token?x=1", "https://[hidden]@host/token?x=1"),
    ("https://alice:hun/ter2@host/", "https://[hidden]@host/"), ("alice:hun@ter2@host:1", "[hidden]@host:1"),
    ("a:1,alice:hun,ter2@host:1", "[hidden]@host:1"), (["a:1", "alice:hunter2@b:1"], ["a:1", "[hidden]@b:1"]),
    ((PEM, 5, None), (HIDDEN, 5, None)), ((["x", [PEM]],), (["x", [HIDDEN]],)),
])
def test_value_when_a_part_of_it_is_secret_then_that_part_is_hidden(value, expected):
    assert shown(value) == expected
    assert "ter2" not in repr(shown(value))


@pytest.mark.parametrize("value", [
    None, True, 5, 1.5, "", "all", "localhost:9092", "a:1,b:2", "[::1]:9092", "SASL_SSL://host:9092", "a@example.com",
    "kafka/host@REALM", "/etc/kafka/keys/private-key.pem", "/" + "directory/" * 20 + "file", "C:\\keys\\my.key",
    "com.example.MyPasswordProvider", "TLS_AES_256_GCM_SHA384", b"bytes", {"a": 1}, ["x"], object, "the-topic-" * 20,
    "password", "ssl.key.password", "Message" * 30,
], ids=lambda value: repr(value)[:30])
def test_value_when_it_holds_no_secret_then_it_is_shown_as_it_is(value):
    assert shown(value) is value or shown(value) == value


def test_text_when_a_secret_stands_in_a_sentence_then_the_sentence_is_left():
    assert shown_text(f"the item {PEM!r} is wrong") == "the item '[hidden]\\n' is wrong"
    assert shown_text("no PEM text: it must contain a line '-----BEGIN ...'") == (
        "no PEM text: it must contain a line '-----BEGIN ...'")
    assert shown_text("'alice:hunter2@h:1' is no host") == "'[hidden]@h:1' is no host"


@pytest.mark.parametrize("part", ["a", "a:", "a/", "a://", "//a"])
def test_text_when_it_is_long_then_it_is_looked_through_once(part):
    """A broker's message of 30,000 characters stopped all threads for seconds, one of 600,000 for half an hour."""
    text = part * (600_000 // len(part))
    assert shown_text(text) == text
    assert shown_text(f"x:y@h {text}") == f"[hidden]@h {text}"
    assert "hunter2" not in shown_text(f"{text}b:hunter2@h")


@pytest.mark.parametrize("part", [
    "-eyJabcdefgh", "_eyJ", "eyJabcdefgh_", "eyJ", "-eyJabcdefgh.", "eyJabc.", "-----BEGIN A", "-----END A ", "token ",
    "token=", "password = ", "secret'", "MAAA!", "MAAA ", "M", "=", " ",
])
def test_text_when_it_looks_like_many_secrets_then_it_is_looked_through_once(part):
    """Each beginning of a JWT, of which there may be one in twelve characters, was followed to the end of the text."""
    text = part * (600_000 // len(part))
    assert "hunter2" not in shown_text(f"{text}\n{JWT}")


@pytest.mark.parametrize("text", [f"key-{JWT}", f"a_b-{JWT}", f"eyJ-{JWT}", f"{JWT.rpartition('.')[0]}"])
def test_token_when_it_stands_behind_a_dash_then_it_is_hidden(text):
    assert shown_text(f"id {text} is wrong") == "id [hidden] is wrong"


@pytest.mark.parametrize("secret", [PEM, JAAS, "alice:hunter2@host:9092", [PEM.encode()]],
                         ids=["pem", "jaas", "user", "bytes"])
def test_config_error_when_a_secret_is_in_it_then_no_way_shows_it(secret):
    error = ConfigError("some.key", secret, f"{secret!r} does not fit")
    for one in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        everything = f"{one} {one!r} {one.args} {one.__dict__}"
        assert "some.key" in everything
        for part in ("hunter2", "alice:", BODY[:20], "BEGIN"):
            assert part not in everything
