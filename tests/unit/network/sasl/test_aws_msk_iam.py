"""IAM of MSK: what is signed, checked by a second implementation of SigV4, and where the keys come from."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import pickle
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from pyproducer.common.errors import AuthenticationError, ConfigError, TransportError
from pyproducer.network.sasl import aws_msk_iam
from pyproducer.network.sasl.aws_msk_iam import AwsKeys, AwsMskIamSaslClient, KeySource, MskTokens, region_of_host
from pyproducer.producer.config import ProducerConfig
from tests.support.clock import ManualClock
from tests.unit.network.sasl.logins import NoThread, run_until

botocore_session = pytest.importorskip("botocore.session", reason="botocore is not installed: pip install -e '.[aws]'")

HOST = "b-1.cluster.abc123.c2.kafka.eu-west-1.amazonaws.com"
SECRET = "hunter2hunter2"
KEYS = AwsKeys("AKIDEXAMPLE", SECRET, "the/session+token=")


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Take away what the machine has of AWS, and the way to its servers."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION",
                 "AWS_DEFAULT_REGION", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE",
                 "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def signature_of(parameters: dict[str, str], host: str, secret: str) -> str:
    """Return SigV4's signature of a request for its query, from Amazon's description of it."""
    def mac(key: bytes, text: str) -> bytes:
        return hmac.new(key, text.encode(), hashlib.sha256).digest()

    query = "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}"
                     for name, value in sorted(parameters.items()) if name != "X-Amz-Signature")
    request = f"GET\n/\n{query}\nhost:{host}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    scope = parameters["X-Amz-Credential"].partition("/")[2]
    text = f"AWS4-HMAC-SHA256\n{parameters['X-Amz-Date']}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = mac(key, part)
    return mac(key, text).hex()


AS_SIGNED = {name.lower(): name for name in (
    "Action", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Security-Token",
    "X-Amz-Signature", "X-Amz-SignedHeaders")}


def first_payload(keys: AwsKeys) -> dict[str, str]:
    payload: dict[str, str] = json.loads(AwsMskIamSaslClient(keys, HOST, "eu-west-1").evaluate_challenge(b"") or b"")
    return payload


# The mechanism --------------------------------------------------------------------------------------------------------

def test_payload_when_it_is_made_then_it_has_msks_form_and_a_true_signature():
    payload = first_payload(KEYS)
    parameters = {AS_SIGNED[name]: value for name, value in payload.items() if name in AS_SIGNED}
    assert payload["version"] == "2020_10_22"
    assert payload["host"] == HOST
    assert payload["user-agent"] == "pyproducer"
    assert payload["action"] == "kafka-cluster:Connect"
    assert payload["x-amz-algorithm"] == "AWS4-HMAC-SHA256"
    assert payload["x-amz-expires"] == "900"
    assert payload["x-amz-signedheaders"] == "host"
    assert payload["x-amz-security-token"] == KEYS.session_token
    day = payload["x-amz-date"][:8]
    assert payload["x-amz-credential"] == f"AKIDEXAMPLE/{day}/eu-west-1/kafka-cluster/aws4_request"
    assert payload["x-amz-signature"] == signature_of(parameters, HOST, SECRET)
    assert len(payload) == 11
    assert SECRET not in str(payload)


def test_payload_when_it_is_written_then_without_blanks_as_amazons_client_does():
    payload = AwsMskIamSaslClient(KEYS, HOST, "eu-west-1").evaluate_challenge(b"")
    assert payload is not None
    assert payload.split() == [payload]


def test_payload_when_the_keys_do_not_end_then_it_has_no_session_token():
    payload = first_payload(AwsKeys("AKID", SECRET))
    assert "x-amz-security-token" not in payload


def test_answer_when_it_has_a_request_id_then_the_authentication_is_complete():
    client = AwsMskIamSaslClient(KEYS, HOST, "eu-west-1")
    client.evaluate_challenge(b"")
    assert not client.complete
    assert client.evaluate_challenge(b'{"version":"2020_10_22","request-id":"7"}') is None
    assert client.complete


@pytest.mark.parametrize("answer", [b"", b"no", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_answer_when_it_is_not_msks_then_it_is_refused(answer):
    client = AwsMskIamSaslClient(KEYS, HOST, "eu-west-1")
    client.evaluate_challenge(b"")
    with pytest.raises(AuthenticationError, match="something else than a request id"):
        client.evaluate_challenge(answer)
    assert not client.complete


@pytest.mark.parametrize(("host", "region"), [
    (HOST, "eu-west-1"),
    ("boot-abc.c1.kafka-serverless.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
    ("b-2.x.y.c3.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
    ("kafka.us-east-1.amazonaws.com", "us-east-1"),
    (f"{HOST}.", "eu-west-1"),
    (f"{HOST}..", None),
    ("localhost", None),
    ("kafka.example.org", None),
    ("notkafka.eu-west-1.amazonaws.com", None),
])
def test_region_when_the_brokers_name_tells_it_then_it_is_found(host, region):
    assert region_of_host(host) == region


def test_client_when_no_region_is_known_then_the_error_says_what_to_set():
    with pytest.raises(AuthenticationError, match="AWS_DEFAULT_REGION"):
        AwsMskIamSaslClient(KEYS, "localhost", None)


def test_keys_when_they_are_shown_or_pickled_then_the_secrets_are_not():
    assert SECRET not in repr(KEYS)
    assert "session+token" not in repr(KEYS)
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(KEYS)


# Keys -----------------------------------------------------------------------------------------------------------------

def test_keys_when_the_environment_has_them_then_they_are_those(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert KeySource({}).fetch() == AwsKeys("AKID", SECRET)


def test_keys_when_a_profile_is_named_then_they_are_its_and_a_change_of_the_file_is_seen(tmp_path):
    def write(secret: str) -> None:
        (tmp_path / "credentials").write_text(
            f"[other]\naws_access_key_id = AKID\naws_secret_access_key = {secret}\n")

    write("first")
    source = KeySource({"awsProfileName": "other"})
    assert source.fetch() == AwsKeys("AKID", "first")
    write("second")
    assert source.fetch() == AwsKeys("AKID", "second")


def test_keys_when_there_are_none_then_it_is_a_refusal_that_says_where_they_were_looked_for():
    with pytest.raises(AuthenticationError, match="AWS_ACCESS_KEY_ID"):
        KeySource({}).fetch()
    with pytest.raises(AuthenticationError, match="nobody"):
        KeySource({"awsProfileName": "nobody"}).fetch()


class Sts:
    """Stands for the client of STS."""

    def __init__(self, outcome: object) -> None:
        self.outcome = outcome
        self.made_with: dict[str, Any] = {}
        self.asked: dict[str, Any] = {}

    def create_client(self, _: object, name: str, **arguments: Any) -> Sts:
        assert name == "sts"
        self.made_with = arguments
        return self

    def assume_role(self, **arguments: Any) -> Any:
        self.asked = arguments
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Sts:
    import datetime

    ends = datetime.datetime.fromtimestamp(1_800_000_000, datetime.timezone.utc)
    stand_in = Sts({"Credentials": {"AccessKeyId": "ASIA", "SecretAccessKey": SECRET, "SessionToken": "t",
                                    "Expiration": ends}})
    monkeypatch.setattr(botocore_session.Session, "create_client",
                        lambda session, name, **arguments: stand_in.create_client(session, name, **arguments))
    return stand_in


def test_keys_when_a_role_is_named_then_sts_is_asked_for_it(sts):
    source = KeySource({"awsRoleArn": "arn:aws:iam::1:role/r", "awsRoleSessionName": "me", "awsStsRegion": "eu-west-1",
                        "awsRoleExternalId": "7", "awsRoleAccessKeyId": "AKID", "awsRoleSecretAccessKey": SECRET,
                        "awsRoleSessionToken": "of-the-asker"})
    assert source.fetch() == AwsKeys("ASIA", SECRET, "t", 1_800_000_000_000)
    assert sts.asked == {"RoleArn": "arn:aws:iam::1:role/r", "RoleSessionName": "me", "ExternalId": "7"}
    timeouts = sts.made_with.pop("config")
    assert (timeouts.connect_timeout, timeouts.read_timeout) == (10, 10)
    assert sts.made_with == {"region_name": "eu-west-1", "aws_access_key_id": "AKID", "aws_secret_access_key": SECRET,
                             "aws_session_token": "of-the-asker"}


def test_keys_when_sts_refuses_or_is_away_then_only_the_first_is_a_refusal(sts):
    from botocore.exceptions import ClientError, EndpointConnectionError

    source = KeySource({"awsRoleArn": "arn:aws:iam::1:role/r"})
    denied = {"Error": {"Code": "AccessDenied", "Message": "not you"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
    sts.outcome = ClientError(denied, "AssumeRole")
    with pytest.raises(AuthenticationError, match="AccessDenied: not you"):
        source.fetch()
    sts.outcome = ClientError({"Error": {"Code": "Oops"}, "ResponseMetadata": {"HTTPStatusCode": 503}}, "AssumeRole")
    with pytest.raises(TransportError, match="has no keys now"):
        source.fetch()
    sts.outcome = EndpointConnectionError(endpoint_url="https://sts")
    with pytest.raises(TransportError, match="were not found"):
        source.fetch()


def test_options_when_they_contradict_each_other_then_it_is_said_at_once():
    with pytest.raises(ConfigError, match="one of them"):
        KeySource({"awsProfileName": "a", "awsRoleArn": "b"})


def test_botocore_when_it_is_not_installed_then_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr(aws_msk_iam.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'pyproducer\[aws\]'"):
        KeySource({})


def test_login_when_the_settings_ask_for_it_then_its_clients_sign_for_the_region_of_the_brokers_name(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    clock = ManualClock()
    login = aws_msk_iam.msk_iam_login(settings_with(HOST), clock=clock, start_thread=NoThread())
    login.start(lambda: None)
    login.run_once()
    assert login.mechanism == "AWS_MSK_IAM"
    for host in (HOST, "10.0.0.7"):  # brokers may be known by their addresses
        payload = json.loads(login.new_client(host).evaluate_challenge(b"") or b"")
        assert payload["host"] == host
        assert "/eu-west-1/kafka-cluster/" in payload["x-amz-credential"]
    run_until(login, clock, 600_000)
    assert login.is_ready
    assert SECRET not in f"{login!r} {vars(login)}"


# Tokens for OAUTHBEARER -----------------------------------------------------------------------------------------------

def settings_with(host: str) -> ProducerConfig:
    return ProducerConfig({"bootstrap.servers": f"{host}:9098"})


def test_token_when_it_is_made_then_it_is_a_url_with_a_true_signature_that_ends_in_15_minutes(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    before_ms = int(time.time()) * 1000
    token = MskTokens(settings_with(HOST), {}).fetch()
    url = urlsplit(base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode())
    parameters = dict(parse_qsl(url.query))
    assert (url.scheme, url.netloc, url.path) == ("https", "kafka.eu-west-1.amazonaws.com", "/")
    assert parameters.pop("User-Agent") == "pyproducer"
    assert parameters["X-Amz-Signature"] == signature_of(parameters, url.netloc, SECRET)
    assert token.expires_at_ms is not None
    assert token.started_at_ms is not None
    assert token.expires_at_ms - token.started_at_ms == 900_000
    assert token.started_at_ms >= before_ms
    assert token.principal == "AKID"


def test_token_when_amazons_own_signer_makes_one_then_it_differs_in_nothing_but_the_agent_and_the_time(monkeypatch):
    signer = pytest.importorskip("aws_msk_iam_sasl_signer.MSKAuthTokenProvider",
                                 reason="aws-msk-iam-sasl-signer-python is not installed: pip install -e '.[test]'")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    theirs, _ = signer.generate_auth_token("eu-west-1")
    ours = MskTokens(settings_with(HOST), {}).fetch().value

    def read(token: str) -> tuple[str, dict[str, str]]:
        url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
        other = ("X-Amz-Date", "X-Amz-Signature", "User-Agent")
        return url.netloc, {name: value for name, value in parse_qsl(url.query) if name not in other}

    assert read(ours) == read(theirs)


def test_token_when_the_region_is_in_the_environment_then_that_serves(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with pytest.raises(AuthenticationError, match="AWS_DEFAULT_REGION"):
        MskTokens(settings_with("localhost"), {}).fetch()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-2")
    token = MskTokens(settings_with("localhost"), {}).fetch()
    assert b"kafka.us-east-2.amazonaws.com" in base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4))
