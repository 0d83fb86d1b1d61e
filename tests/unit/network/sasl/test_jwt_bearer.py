"""Assertions: what they say, by which key they are signed, and what is said of files that do not serve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from pyproducer.common.errors import AuthenticationError, ConfigError, TransportError
from pyproducer.network.sasl.jwt_bearer import JwtBearer, SignedAssertion
from tests.support.clock import ManualClock

jwt = pytest.importorskip("jwt", reason="PyJWT is not installed: pip install -e '.[unit]'")

PREFIX = "sasl.oauthbearer.assertion."
DEFAULTS: dict[str, Any] = {
    "algorithm": "RS256", "claim.aud": None, "claim.iss": None, "claim.sub": None, "claim.exp.seconds": 300,
    "claim.nbf.seconds": 60, "claim.jti.include": False, "private.key.file": None, "private.key.passphrase": None,
    "template.file": None}
NOW_S = 1_700_000_000


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="module")
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@pytest.fixture
def key_file(tmp_path: Path, rsa_key: rsa.RSAPrivateKey) -> Path:
    return written(tmp_path, rsa_key)


def written(folder: Path, key: Any, passphrase: str | None = None) -> Path:
    encryption = serialization.NoEncryption() if passphrase is None else (
        serialization.BestAvailableEncryption(passphrase.encode()))
    path = folder / "key.pem"
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    return path


def signed(**settings: Any) -> SignedAssertion:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return SignedAssertion({PREFIX + key: value for key, value in (DEFAULTS | given).items()}, ManualClock())


def read(text: str, key: Any, algorithm: str = "RS256") -> tuple[dict[str, Any], dict[str, Any]]:
    checked = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False}
    return jwt.get_unverified_header(text), jwt.decode(text, key.public_key(), [algorithm], options=checked)


def test_assertion_when_it_is_signed_then_settings_template_and_times_are_in_it(tmp_path, key_file, rsa_key):
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"header": {"kid": "7", "alg": "none"},
                                    "payload": {"iss": "of the file", "role": "x", "exp": 1}}))
    header, claims = read(signed(private_key_file=key_file, template_file=template, claim_aud="issuer",
                                 claim_iss="of the settings", claim_sub="ada", claim_jti_include=True).text(), rsa_key)
    assert header == {"alg": "RS256", "typ": "JWT", "kid": "7"}
    assert len(claims.pop("jti")) == 36
    assert claims == {"aud": "issuer", "iss": "of the file", "sub": "ada", "role": "x", "iat": NOW_S,
                      "exp": NOW_S + 300, "nbf": NOW_S - 60}


def test_assertion_when_the_key_is_of_an_elliptic_curve_then_es256_signs(tmp_path, ec_key):
    header, _ = read(signed(private_key_file=written(tmp_path, ec_key), algorithm="ES256").text(), ec_key, "ES256")
    assert header["alg"] == "ES256"


def test_assertion_when_the_key_is_encrypted_then_the_passphrase_opens_it(tmp_path, rsa_key):
    path = written(tmp_path, rsa_key, "hunter2")
    assert read(signed(private_key_file=path, private_key_passphrase="hunter2").text(), rsa_key)
    for wrong, why in ((None, "it is encrypted: set"), ("hunter3", "passphrase does not open it")):
        with pytest.raises(AuthenticationError, match=why) as raised:
            signed(private_key_file=path, private_key_passphrase=wrong).text()
        assert "hunter3" not in str(raised.value)


def test_assertion_when_the_key_stands_without_its_marks_then_it_is_taken_as_java_does(key_file, rsa_key):
    key_file.write_text("".join(line for line in key_file.read_text().splitlines() if "-----" not in line))
    assert read(signed(private_key_file=key_file).text(), rsa_key)


def test_assertion_when_the_key_changes_then_the_next_one_is_signed_by_the_new(tmp_path, key_file, rsa_key):
    assertion = signed(private_key_file=key_file)
    assert read(assertion.text(), rsa_key)
    newer = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    written(tmp_path, newer)
    assert read(assertion.text(), newer)


@pytest.mark.parametrize(("content", "kind", "why"), [
    (None, TransportError, "cannot be read: No such file"),
    (b"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n", AuthenticationError, "no private key in PEM"),
    (b"", TransportError, "is empty"),
    (b"\xff\xfe", AuthenticationError, "no text in UTF-8"),
])
def test_assertion_when_the_key_file_does_not_serve_then_the_error_says_why(tmp_path, content, kind, why):
    """What is missing or empty may be there in a moment: somebody else writes the file."""
    path = tmp_path / "key.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(kind, match=why) as caught:
        signed(private_key_file=path).text()
    assert type(caught.value) is kind


def test_assertion_when_key_and_algorithm_do_not_fit_then_the_error_says_so(tmp_path, ec_key):
    with pytest.raises(AuthenticationError, match="signed by RS256 with the key"):
        signed(private_key_file=written(tmp_path, ec_key)).text()


@pytest.mark.parametrize("content", ["[]", "{\"header\": 1}", "{\"payload\": []}", "[" * 100_000])
def test_assertion_when_the_template_does_not_serve_then_the_error_says_so(tmp_path, key_file, content):
    template = tmp_path / "template.json"
    template.write_text(content)
    with pytest.raises(AuthenticationError, match="must be a JSON object"):
        signed(private_key_file=key_file, template_file=template).text()


def test_assertion_when_no_key_is_named_then_it_is_said_at_once():
    with pytest.raises(ConfigError, match=r"assertion\.private\.key\.file"):
        signed()


def test_request_when_an_assertion_comes_then_it_is_sent_and_hidden():
    given = ["a.b+.c", "d.e.f"]
    request = JwtBearer(lambda: given.pop(0), "produce all")
    grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
    assert request.body() == f"{grant}&assertion=a.b%2B.c&scope=produce+all"
    assert request.secrets() == ("a.b+.c",)
    assert "a.b" not in repr(request)
    assert request.body() == f"{grant}&assertion=d.e.f&scope=produce+all"
