"""The broker's half of each mechanism: what it takes, what it refuses, and what it tells whom."""

from __future__ import annotations

import base64
import json
import time
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from pyproducer.broker.cluster.sasl.aws_msk_iam_server import AwsMskIamSaslServer, AwsMskIamTokenValidator
from pyproducer.broker.cluster.sasl.jwks_validator import JwksSettings, JwksTokenValidator, fetch_text
from pyproducer.broker.cluster.sasl.oauthbearer_server import (
    OAuthBearerSaslServer,
    TokenRefusedError,
    UnsecuredTokenValidator,
    ValidToken,
)
from pyproducer.broker.cluster.sasl.plain_server import PlainSaslServer, PlainUsers
from pyproducer.broker.cluster.sasl.sasl_server import SaslError
from pyproducer.broker.cluster.sasl.scram_credential import ScramCredential, generate_credential
from pyproducer.broker.cluster.sasl.scram_server import ScramSaslServer
from pyproducer.common.errors import AuthenticationError, ConfigError
from pyproducer.network.sasl.scram_formatter import FORMATTERS, ScramMechanism, auth_message
from pyproducer.network.sasl.scram_messages import ClientFinalMessage, ClientFirstMessage, ServerFirstMessage
from tests.support.clock import ManualClock
from tests.support.patience import GIVE_UP_S
from tests.support.secret_hunt import SecretHunt

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
USERS = PlainUsers({"user_alice": "secret", "user_zo\u00eb": "p\u00e4ss", "username": "x", "password": "y"})


# ---- PLAIN

@pytest.mark.parametrize(("response", "user"), [
    (b"\0alice\0secret", "alice"), (b"alice\0alice\0secret", "alice"),
    ("\0zo\u00eb\0p\u00e4ss".encode(), "zo\u00eb")])
def test_plain_when_the_password_is_right_then_the_user_is_known(response: bytes, user: str) -> None:
    server = PlainSaslServer(USERS)
    assert server.evaluate_response(response) == b""
    assert (server.complete, server.authorization_id, server.expires_at_ms) == (True, user, None)


@pytest.mark.parametrize(("response", "why"), [
    (b"", "expected 3 tokens, got 1"), (b"\0alice\0secret\0", "expected 3 tokens, got 4"),
    (b"\0\0secret", "username not specified"), (b"\0alice\0", "password not specified"),
    (b"\0alice\0wrong", "Invalid username or password"), (b"\0name\0x", "Invalid username or password"),
    (b"\0carol\0secret", "Invalid username or password"), (b"bob\0alice\0secret", "different from username"),
    (b"\0alice\0\xff", "not in UTF-8")])
def test_plain_when_it_is_not_right_then_the_client_is_told(response: bytes, why: str) -> None:
    server = PlainSaslServer(USERS)
    with pytest.raises(AuthenticationError, match=why) as raised:
        server.evaluate_response(response)
    assert not server.complete
    assert raised.value.__context__ is None or "UnicodeDecode" not in repr(raised.value.__context__)


@pytest.mark.parametrize("response", [
    b"hunter22", b"\0alice\0hunter22\0", b"\0\0hunter22", b"\0alice\0hunter22?", b"\0alice\0hunter22\xff",
    b"bob\0alice\0hunter22"])
def test_plain_when_it_is_refused_then_a_crash_report_of_the_error_shows_no_password(response: bytes) -> None:
    with SecretHunt("hunter22") as hunt, hunt.errors(AuthenticationError):
        PlainSaslServer(PlainUsers({"user_alice": "hunter22"})).evaluate_response(response)


def test_users_when_shown_then_without_their_passwords() -> None:
    assert "secret" not in repr(USERS)


# ---- SCRAM

def scram(*, credential: ScramCredential | None = None, **users: str) -> ScramSaslServerPeer:
    formatter = FORMATTERS["SCRAM-SHA-256"]
    kept = {user: credential or generate_credential(formatter, password) for user, password in users.items()}
    return ScramSaslServerPeer(kept)


class ScramSaslServerPeer:
    """A client of SCRAM that can be told to be wrong."""

    def __init__(self, kept: dict[str, ScramCredential]) -> None:
        self.server = ScramSaslServer(ScramMechanism.SCRAM_SHA_256, kept.get, lambda: "theirs")
        self.formatter = FORMATTERS["SCRAM-SHA-256"]

    def first(self, text: bytes = b"n,,n=alice,r=mine") -> ServerFirstMessage:
        self.said = ClientFirstMessage.parse(text)
        return ServerFirstMessage.parse(self.server.evaluate_response(text))

    def final(self, asked: ServerFirstMessage, password: str, *, header: bytes = b"n,,", nonce: str = "") -> bytes:
        draft = ClientFinalMessage(header, nonce or asked.nonce)
        salted = self.formatter.salted_password(password, asked.salt, asked.iterations)
        signed = auth_message(self.said.bare, str(asked), draft.without_proof)
        return ClientFinalMessage(header, draft.nonce, self.formatter.client_proof(salted, signed)).to_bytes()


def test_scram_when_the_password_is_right_then_the_server_proves_itself_too() -> None:
    peer = scram(alice="secret")
    asked = peer.first()
    assert asked.nonce == "minetheirs"
    assert asked.iterations == 4096
    answer = peer.server.evaluate_response(peer.final(asked, "secret"))
    assert answer.startswith(b"v=")
    assert (peer.server.complete, peer.server.authorization_id) == (True, "alice")
    with pytest.raises(SaslError, match="complete"):
        peer.server.evaluate_response(b"")


def test_scram_when_the_name_is_escaped_then_it_is_the_name_that_counts() -> None:
    peer = ScramSaslServerPeer({"a,b=c": generate_credential(FORMATTERS["SCRAM-SHA-256"], "x")})
    asked = peer.first(b"n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=mine,other=thing")
    peer.server.evaluate_response(peer.final(asked, "x", header=b"n,a=a=2Cb=3Dc,"))
    assert peer.server.authorization_id == "a,b=c"


@pytest.mark.parametrize("first", [b"", b"n,,n=bob,r=mine", b"n,,n=alice,r=mine,tokenauth=true", b"n,,n=a=2C=3,r=x"])
def test_scram_when_the_first_message_is_wrong_then_only_the_log_says_why(first: bytes) -> None:
    with pytest.raises(SaslError):
        scram(alice="secret").server.evaluate_response(first)


def test_scram_when_another_identity_is_asked_for_then_the_client_is_told() -> None:
    with pytest.raises(AuthenticationError, match="different from username"):
        scram(alice="secret").server.evaluate_response(b"n,a=bob,n=alice,r=mine")


def test_scram_when_there_are_too_few_iterations_then_it_is_refused() -> None:
    weak = generate_credential(FORMATTERS["SCRAM-SHA-256"], "secret", 4095)
    with pytest.raises(SaslError, match="Iterations 4095 is less than the minimum 4096"):
        scram(credential=weak, alice="secret").first()


@pytest.mark.parametrize(("changes", "why"), [
    ({"password": "wrong"}, "Invalid client credentials"), ({"nonce": "minetheirs2"}, "Invalid client nonce"),
    ({"header": b"y,,"}, "Invalid channel binding")])
def test_scram_when_the_proof_is_wrong_then_only_the_log_says_why(changes: dict[str, Any], why: str) -> None:
    peer = scram(alice="secret")
    asked = peer.first()
    final = peer.final(asked, **{"password": "secret", **changes})
    with pytest.raises(SaslError, match=why):
        peer.server.evaluate_response(final)
    assert not peer.server.complete


# ---- OAUTHBEARER

def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def unsecured(claims: object, header: object = None, signature: str = "") -> str:
    return f"{part({'alg': 'none'} if header is None else header)}.{part(claims)}.{signature}"


def claims(**changes: object) -> dict[str, object]:
    made = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60, **changes}
    return {name: value for name, value in made.items() if value is not None}


def validator(**options: str) -> UnsecuredTokenValidator:
    return UnsecuredTokenValidator({f"unsecuredValidator{name}": value for name, value in options.items()},
                                   lambda: NOW_MS)


def test_unsecured_token_when_it_is_valid_then_it_says_who_and_until_when() -> None:
    assert validator().validate(unsecured(claims())) == ValidToken("alice", NOW_MS + 60_000)
    assert validator().validate(unsecured(claims(iat=None, exp=NOW_S + 0.5))) == ValidToken("alice", NOW_MS + 500)
    other = validator(PrincipalClaimName="name", ScopeClaimName="scp", RequiredScope="a b")
    assert other.validate(unsecured(claims(name="bob", scp=["b", "a", "c"]))).principal_name == "bob"
    assert other.validate(unsecured(claims(name="bob", scp="b a"))).principal_name == "bob"
    late = validator(AllowableClockSkewMs="2000")
    assert late.validate(unsecured(claims(iat=NOW_S + 1, exp=NOW_S + 2))).principal_name == "alice"
    assert late.validate(unsecured(claims(iat=None, exp=NOW_S - 1))).principal_name == "alice"


@pytest.mark.parametrize("token", [
    "", "a.b", "a.b.c", "..", unsecured(claims(), signature="abc"), unsecured(claims(), {"alg": "RS256"}),
    unsecured(claims(), {}), unsecured([]), unsecured(claims(sub=None)), unsecured(claims(sub=7)),
    unsecured(claims(exp=None)), unsecured(claims(exp="soon")), unsecured(claims(exp=True)),
    unsecured(claims(exp=float("inf"))), unsecured(claims(exp=NOW_S)), unsecured(claims(iat=NOW_S + 1)),
    unsecured(claims(iat="x")), unsecured(claims(scope=7)), unsecured(claims(iat=NOW_S, exp=NOW_S))])
def test_unsecured_token_when_it_is_not_valid_then_it_is_refused(token: str) -> None:
    with pytest.raises(TokenRefusedError) as raised:
        validator().validate(token)
    assert raised.value.status == "invalid_token"


def test_unsecured_token_when_a_scope_is_missing_then_the_scope_is_told() -> None:
    with pytest.raises(TokenRefusedError) as raised:
        validator(RequiredScope="a b").validate(unsecured(claims(scope="a")))
    assert (raised.value.status, raised.value.scope) == ("insufficient_scope", "a b")


def test_unsecured_validator_when_the_skew_is_negative_then_it_is_not_made() -> None:
    with pytest.raises(ValueError, match="negative"):
        validator(AllowableClockSkewMs="-1")


def bearer(token: str, authorization_id: str = "", extensions: str = "") -> bytes:
    return f"n,{authorization_id},\x01auth=Bearer {token}\x01{extensions}\x01".encode()


def test_oauthbearer_when_the_token_is_valid_then_the_session_ends_with_it() -> None:
    server = OAuthBearerSaslServer(validator())
    assert server.evaluate_response(bearer(unsecured(claims()), "a=alice", "logicalCluster=lkc-1\x01")) == b""
    assert (server.complete, server.authorization_id, server.expires_at_ms) == (True, "alice", NOW_MS + 60_000)


def test_oauthbearer_when_the_token_is_refused_then_json_says_so_and_the_next_message_fails() -> None:
    server = OAuthBearerSaslServer(validator())
    assert server.evaluate_response(bearer(unsecured(claims(exp=1)))) == b'{"status":"invalid_token"}'
    assert not server.complete
    with pytest.raises(AuthenticationError, match=r'^\{"status":"invalid_token"\}$'):
        server.evaluate_response(b"\x01")


def test_oauthbearer_when_another_identity_is_asked_for_then_the_client_is_told() -> None:
    with pytest.raises(AuthenticationError, match=r"\(bob\) that is different from the token's principal name \(alice"):
        OAuthBearerSaslServer(validator()).evaluate_response(bearer(unsecured(claims()), "a=bob"))


@pytest.mark.parametrize("response", [
    b"", b"\x01", b"n,,\x01\x01", b"n,,\x01auth=Basic abc\x01\x01", b"n,,\x01auth=Bearer\x01\x01", b"n,,auth=Bearer a",
    b"n,,\x01auth=Bearer abc\x01", b"n,,\x01auth=Bearer \xff\x01\x01"])
def test_oauthbearer_when_it_is_no_such_message_then_only_the_log_says_why(response: bytes) -> None:
    with pytest.raises(SaslError, match="OAUTHBEARER client first message"):
        OAuthBearerSaslServer(validator()).evaluate_response(response)


# ---- signed tokens

RSA_KEY = rsa.generate_private_key(65537, 2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def jwks(**keys: Any) -> str:
    found = []
    for name, key in keys.items():
        algorithm = (jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey)
                     else jwt.algorithms.ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey)
                     else jwt.algorithms.OKPAlgorithm)
        found.append({**json.loads(algorithm.to_jwk(key.public_key())), "kid": name, "use": "sig"})
    return json.dumps({"keys": found})


def signed(key: Any = RSA_KEY, algorithm: str = "RS256", key_id: str | None = "one", **changes: object) -> str:
    now_s = int(time.time())
    made = {"sub": "alice", "iat": now_s, "exp": now_s + 60, "iss": "us", "aud": "kafka", **changes}
    return jwt.encode({name: value for name, value in made.items() if value is not None}, key, algorithm=algorithm,
                      headers=None if key_id is None else {"kid": key_id})


class Provider:
    """What an identity provider publishes; may be away."""

    def __init__(self, text: str | None) -> None:
        self.text = text
        self.asked = 0

    def __call__(self, _url: str) -> str:
        self.asked += 1
        if self.text is None:
            raise ConnectionRefusedError("away")
        return self.text


def checking(provider: Provider, **settings: Any) -> JwksTokenValidator:
    return JwksTokenValidator(JwksSettings("http://127.0.0.1/keys", **settings), provider)


@pytest.fixture
def started(request: pytest.FixtureRequest) -> Any:
    def start(provider: Provider, **settings: Any) -> JwksTokenValidator:
        made = checking(provider, **settings)
        made.start()
        request.addfinalizer(made.close)
        return made
    return start


def test_signed_token_when_the_key_is_published_then_it_is_valid(started: Any) -> None:
    checked = started(Provider(jwks(one=RSA_KEY, two=EC_KEY)), expected_issuer="us", expected_audience=("x", "kafka"))
    assert checked.validate(signed()).principal_name == "alice"
    assert checked.validate(signed(EC_KEY, "ES256", "two")).principal_name == "alice"
    expires = int(time.time()) + 7
    assert checked.validate(signed(exp=expires)).expires_at_ms == expires * 1000


@pytest.mark.parametrize(("algorithm", "key"), [
    *((f"{kind}{bits}", RSA_KEY) for kind in ("RS", "PS") for bits in (256, 384, 512)), ("ES256", EC_KEY),
    ("ES384", ec.generate_private_key(ec.SECP384R1())), ("ES512", ec.generate_private_key(ec.SECP521R1())),
    ("EdDSA", ed25519.Ed25519PrivateKey.generate())],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__)
def test_signed_token_when_it_is_signed_in_any_way_that_has_a_public_key_then_it_is_valid(
        started: Any, algorithm: str, key: Any) -> None:
    """RFC 7518 and 8037."""
    checked = started(Provider(jwks(one=key)))
    assert checked.validate(signed(key, algorithm, aud=None)).principal_name == "alice"


def test_signed_token_when_there_is_one_key_then_it_need_not_be_named(started: Any) -> None:
    assert started(Provider(jwks(one=RSA_KEY))).validate(signed(key_id=None, aud=None)).principal_name == "alice"
    assert started(Provider(jwks(one=RSA_KEY)), sub_claim_name="iss").validate(
        signed(aud=None)).principal_name == "us"


@pytest.mark.parametrize("audience", ["other-service", ["other-service"], [], "", 7])
def test_signed_token_when_no_audience_is_expected_then_only_tokens_without_one_are_taken(
        started: Any, audience: Any) -> None:
    """A set-up without expected.audience let in the tokens of every other service of the issuer; Kafka does not."""
    checked = started(Provider(jwks(one=RSA_KEY)))
    with pytest.raises(TokenRefusedError, match="audience"):
        checked.validate(signed(aud=audience))
    assert checked.validate(signed(aud=None)).principal_name == "alice"


def test_signed_token_when_it_was_issued_in_the_future_or_has_blanks_then_it_is_taken_as_kafka_takes_it(
        started: Any) -> None:
    checked = started(Provider(jwks(one=RSA_KEY)))
    assert checked.validate(signed(aud=None, sub=" alice\n", iat=int(time.time()) + 50)).principal_name == "alice"
    assert checked.validate(signed(aud=None, exp=315569520000000)).expires_at_ms == 315569520000000000


def test_signed_token_when_its_key_is_for_encryption_then_it_is_refused(started: Any) -> None:
    keys = json.loads(jwks(one=RSA_KEY, two=EC_KEY))
    keys["keys"][0]["use"] = "enc"
    checked = started(Provider(json.dumps(keys)))
    with pytest.raises(TokenRefusedError, match="'one'"):
        checked.validate(signed(aud=None))


@pytest.mark.parametrize("token", [
    "", "a.b.c", unsecured(claims(exp=2**40), {"alg": "none", "kid": "one"}),
    signed(EC_KEY, "ES256"),  # another kind of key than the one of that name
    signed(rsa.generate_private_key(65537, 2048)),  # another key
    signed(bytes(64), "HS256"),  # a public key is no secret
    signed(exp=1), signed(exp=None), signed(iat=None), signed(iat="now"), signed(sub=None), signed(sub=" "),
    signed(nbf=2**40), signed(nbf="now"), signed(exp=10**400), signed(iat=10**400), signed(exp=float("inf")),
    signed(exp=True),
    signed(iss="them"), signed(iss=None), signed(aud="web"), signed(aud=None)])
def test_signed_token_when_it_is_not_valid_then_it_is_refused(started: Any, token: str) -> None:
    checked = started(Provider(jwks(one=RSA_KEY)), expected_issuer="us", expected_audience=("kafka",))
    with pytest.raises(TokenRefusedError):
        checked.validate(token)


@pytest.mark.parametrize(("audience", "is_ours"), [
    ("kafka", True), (["web", "kafka"], True), (["spare"], True),
    ("web", False), (["web", "mail"], False), ([], False), ("", False), ("kafka2", False), ("kaf", False),
    ("Kafka", False), ("kafka,spare", False), (7, False), ([7], False), (None, False)], ids=str)
def test_signed_token_when_an_audience_is_expected_then_only_tokens_for_it_are_taken(
        started: Any, audience: Any, is_ours: bool) -> None:
    """Who had a token of the same issuer for another service logged in to the broker with it."""
    checked = started(Provider(jwks(one=RSA_KEY)), expected_audience=("spare", "kafka"))
    if is_ours:
        assert checked.validate(signed(aud=audience)).principal_name == "alice"
        return
    with pytest.raises(TokenRefusedError, match="Could not validate the access token: "):
        checked.validate(signed(aud=audience))


@pytest.mark.parametrize("kind", [ValueError, TypeError, OverflowError, RecursionError])
def test_signed_token_when_pyjwt_fails_on_it_in_an_unforeseen_way_then_it_is_refused_without_the_words(
        started: Any, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]) -> None:
    checked = started(Provider(jwks(one=RSA_KEY)))

    def fail(token: str, *_: object, **__: object) -> None:
        raise kind(f"{token} is strange")

    monkeypatch.setattr(jwt, "decode", fail)
    with pytest.raises(TokenRefusedError, match=f"^Could not validate the access token: {kind.__name__}$"):
        checked.validate(signed(aud=None))


def test_signed_token_when_its_header_is_nested_without_end_then_it_is_no_jwt(
        started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyJWT 2.8 lets the parser's RecursionError through, which ended the connection without an answer."""
    checked = started(Provider(jwks(one=RSA_KEY)))
    deep = base64.urlsafe_b64encode(b"[" * 2000).decode()
    with pytest.raises(TokenRefusedError, match="It is no JWT"):
        checked.validate(f"{deep}.e30.eHg")

    def fail(_token: str) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr(jwt, "get_unverified_header", fail)
    with pytest.raises(TokenRefusedError, match="It is no JWT"):
        checked.validate(f"{deep}.e30.eHg")


def test_validator_when_it_is_closed_before_it_is_started_or_twice_then_nothing_happens(started: Any) -> None:
    checking(Provider(jwks(one=RSA_KEY))).close()
    checked = started(Provider(jwks(one=RSA_KEY)))
    checked.close()
    checked.close()
    assert checked.validate(signed(aud=None)).principal_name == "alice", "the keys of before are kept"


def test_keys_when_a_new_one_is_used_then_they_are_fetched_again(started: Any) -> None:
    provider = Provider(jwks(one=RSA_KEY))
    checked = started(provider)
    provider.text = jwks(one=RSA_KEY, two=EC_KEY)
    token = signed(EC_KEY, "ES256", "two", aud=None)
    deadline = time.monotonic() + GIVE_UP_S
    while True:
        try:
            assert checked.validate(token).principal_name == "alice"
            break
        except TokenRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_keys_when_the_provider_is_away_then_they_come_when_it_is_back_and_stay_when_it_goes(started: Any) -> None:
    provider = Provider(None)
    checked = started(provider, retry_backoff_ms=1, refresh_ms=1)
    with pytest.raises(TokenRefusedError, match="'one'; there are 0 others"):
        checked.validate(signed())
    provider.text = jwks(one=RSA_KEY)
    deadline = time.monotonic() + GIVE_UP_S
    while not checked._keys:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    provider.text = "nonsense"
    asked = provider.asked
    while provider.asked < asked + 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert checked.validate(signed(aud=None)).principal_name == "alice"


def test_keys_when_tokens_name_unknown_ones_then_the_provider_is_asked_once_a_minute(
        request: pytest.FixtureRequest) -> None:
    """Anybody, before any login, had the identity provider asked with each token: 37 times in four seconds."""
    clock = ManualClock()
    provider = Provider(jwks(one=RSA_KEY))
    checked = JwksTokenValidator(JwksSettings("http://127.0.0.1/keys"), provider, clock=clock)
    checked.start()
    request.addfinalizer(checked.close)
    deadline = time.monotonic() + GIVE_UP_S
    for minute in (1, 2):
        for number in range(30):
            with pytest.raises(TokenRefusedError):
                checked.validate(signed(key_id=f"unknown-{number}"))
        while provider.asked < 1 + minute:  # the first time at the start
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert not checked._wanted.is_set()
        with pytest.raises(TokenRefusedError):
            checked.validate(signed(key_id="unknown"))
        assert not checked._wanted.is_set()
        assert provider.asked == 1 + minute
        clock.advance(60_000)


def test_keys_when_they_are_in_a_file_then_they_are_read(started: Any, tmp_path: Any) -> None:
    path = tmp_path / "keys.json"
    path.write_text(jwks(one=RSA_KEY))
    assert fetch_text(path.as_uri()) == jwks(one=RSA_KEY)
    with pytest.raises(ConfigError, match="file, http, https"):
        JwksTokenValidator(JwksSettings("ftp://127.0.0.1/keys"))


# ---- AWS_MSK_IAM

def iam(**changes: object) -> dict[str, Any]:
    made = {"version": "2020_10_22", "host": "b-1.example", "user-agent": "test", "action": "kafka-cluster:Connect",
            "x-amz-algorithm": "AWS4-HMAC-SHA256",
            "x-amz-credential": "AKIDEXAMPLE/20231114/eu-central-1/kafka-cluster/aws4_request",
            "x-amz-date": "20231114T221320Z", "x-amz-signedheaders": "host", "x-amz-expires": "900",
            "x-amz-signature": "0" * 64, **changes}
    return {name: value for name, value in made.items() if value is not None}


def test_iam_when_the_payload_is_one_then_the_access_key_logs_in() -> None:
    server = AwsMskIamSaslServer(lambda: NOW_MS)
    answer = json.loads(server.evaluate_response(json.dumps(iam()).encode()))
    assert answer["version"] == "2020_10_22"
    assert answer["request-id"]
    assert (server.complete, server.authorization_id) == (True, "AKIDEXAMPLE")


@pytest.mark.parametrize(("changes", "why"), [
    ({"version": "2019"}, "version"), ({"host": None}, "host"), ({"action": "kafka-cluster:Read"}, "action"),
    ({"x-amz-signature": None}, "x-amz-signature is missing"), ({"x-amz-signature": "xyz"}, "hexadecimal"),
    ({"x-amz-algorithm": "none"}, "algorithm"), ({"x-amz-credential": "AKID"}, "x-amz-credential"),
    ({"x-amz-date": "20231115T000000Z"}, "another day"), ({"x-amz-date": "yesterday"}, "x-amz-date is not"),
    ({"x-amz-expires": "901"}, "x-amz-expires"), ({"x-amz-expires": "0"}, "x-amz-expires"),
    ({"x-amz-signedheaders": "date"}, "signedheaders"), ({"x-amz-expires": 900}, "object of texts"),
    ({"x-amz-date": "20231114T221820Z"}, None), ({"x-amz-date": "20231114T221821Z"}, "not yet current"),
    ({"x-amz-date": "20231114T215821Z"}, None), ({"x-amz-date": "20231114T215820Z"}, "Signature expired")])
def test_iam_when_something_is_wrong_then_the_client_is_told(changes: dict[str, object], why: str | None) -> None:
    server = AwsMskIamSaslServer(lambda: NOW_MS)
    data = json.dumps(iam(**changes)).encode()
    if why is None:
        server.evaluate_response(data)
        return
    with pytest.raises(AuthenticationError, match=f"Access denied.*{why}"):
        server.evaluate_response(data)


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"{"])
def test_iam_when_it_is_no_payload_then_it_is_refused(data: bytes) -> None:
    with pytest.raises(AuthenticationError, match="Access denied"):
        AwsMskIamSaslServer(lambda: NOW_MS).evaluate_response(data)


def iam_token(host: str = "kafka.eu-central-1.amazonaws.com", scheme: str = "https", **changes: object) -> str:
    query = {"-".join(word.capitalize() for word in name.split("-")): value for name, value in iam(**changes).items()}
    return base64.urlsafe_b64encode(f"{scheme}://{host}/?{urlencode(query)}".encode()).decode().rstrip("=")


def test_iam_token_when_it_is_of_amazons_signer_then_the_access_key_logs_in() -> None:
    validator = AwsMskIamTokenValidator(lambda: NOW_MS)
    assert validator.validate(iam_token()) == ValidToken("AKIDEXAMPLE", NOW_MS + 900_000)


@pytest.mark.parametrize("token", ["", "a", "!!!", iam_token("kafka.us-east-1.amazonaws.com"), iam_token("example.com"),
                                   iam_token(scheme="http"), iam_token(action="x"), unsecured(claims())])
def test_iam_token_when_it_is_none_then_it_is_refused(token: str) -> None:
    with pytest.raises(TokenRefusedError):
        AwsMskIamTokenValidator(lambda: NOW_MS).validate(token)
