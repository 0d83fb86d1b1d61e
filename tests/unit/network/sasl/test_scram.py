from __future__ import annotations

import base64

import pytest

from pyproducer.broker.cluster.sasl.scram_credential import (
    MECHANISMS,
    TYPE_CODES,
    credential_of,
    generate_credential,
    is_client_proof,
)
from pyproducer.common.errors import AuthenticationError
from pyproducer.network.sasl.password import PasswordCredentials
from pyproducer.network.sasl.scram_formatter import (
    FORMATTERS,
    ScramFormatter,
    ScramMechanism,
    auth_message,
    sasl_name,
    secure_random_string,
    user_name,
    xor,
)
from pyproducer.network.sasl.scram_messages import (
    ClientFinalMessage,
    ClientFirstMessage,
    ServerFinalMessage,
    ServerFirstMessage,
)

# RFC 7677 3, for SHA-256; Java's ScramFormatterTest has the one for SHA-512, of the same user and password.
EXCHANGES = {
    "SCRAM-SHA-256": (
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="),
    "SCRAM-SHA-512": (
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"r=rOprNGfwEbeRWgbNEkqO02431b08-2f89-4bad-a4e6-80c0564ec865,"
        b"s=Yin2FuHTt/M0kJWb0t9OI32n2VmOGi3m+JfjOvuDF88=,i=4096",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO02431b08-2f89-4bad-a4e6-80c0564ec865,p=Hc5yec3NmCD7t+kFRw4/3yD6/F3SQHc7AVYschRja+"
        b"Bc3sbdjlA0eH1OjJc0DD4ghn1tnXN5/Wr6qm9xmaHt4A==",
        b"v=BQuhnKHqYDwQWS5jAw4sZed+C9KFUALsbrq81bB0mh+bcUUbbMPNNmBIupnS2AmyyDnG5CTBQtkjJ9kyY4kzmw=="),
}


def test_salted_password_when_salt_or_iterations_are_others_then_it_is_made_anew() -> None:
    """An administrator made the user's credentials anew: what is remembered is of the old ones."""
    formatter = FORMATTERS["SCRAM-SHA-256"]
    credentials = PasswordCredentials({"username": "user", "password": "pencil"})
    for salt, iterations in ((b"one", 4096), (b"two", 4096), (b"two", 4097), (b"one", 4096)):
        assert credentials.salted_password(formatter, salt, iterations) == formatter.salted_password(
            "pencil", salt, iterations)


@pytest.mark.parametrize("name", EXCHANGES)
def test_formatter_when_fed_the_published_exchange_then_proof_and_signature_are_its(name: str) -> None:
    first, server_first, final, server_final = EXCHANGES[name]
    formatter = FORMATTERS[name]
    answered = ServerFirstMessage.parse(server_first)
    said = ClientFinalMessage.parse(final)
    message = auth_message(ClientFirstMessage.parse(first).bare, str(answered), said.without_proof)
    salted = formatter.salted_password("pencil", answered.salt, answered.iterations)
    assert formatter.client_proof(salted, message) == said.proof
    credential = credential_of(formatter, salted, answered.salt, answered.iterations)
    assert is_client_proof(formatter, said.proof, credential.stored_key, message)
    assert not is_client_proof(formatter, bytes(len(said.proof)), credential.stored_key, message)
    assert not is_client_proof(formatter, said.proof[:-1], credential.stored_key, message)
    signature = formatter.server_signature(credential.server_key, message)
    assert ServerFinalMessage.parse(server_final).server_signature == signature


@pytest.mark.parametrize("name", EXCHANGES)
def test_messages_when_read_and_written_then_they_are_the_same_bytes(name: str) -> None:
    kinds = (ClientFirstMessage, ServerFirstMessage, ClientFinalMessage, ServerFinalMessage)
    for kind, data in zip(kinds, EXCHANGES[name], strict=True):
        assert kind.parse(data).to_bytes() == data


def test_messages_when_made_then_they_have_the_published_form() -> None:
    first, server_first, final, server_final = EXCHANGES["SCRAM-SHA-256"]
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    made = ClientFirstMessage("user", "rOprNGfwEbeRWgbNEkqO")
    assert made.to_bytes() == first
    assert made.gs2_header == "n,,"
    assert ServerFirstMessage(nonce, base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096).to_bytes() == server_first
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert ClientFinalMessage(b"n,,", nonce, proof).to_bytes() == final
    assert ServerFinalMessage(base64.b64decode(server_final[2:])).to_bytes() == server_final
    assert ServerFinalMessage(error="invalid-proof").to_bytes() == b"e=invalid-proof"
    assert ServerFinalMessage.parse(b"e=invalid-proof").error == "invalid-proof"


def test_client_first_when_it_has_all_parts_then_each_is_read() -> None:
    data = b"n,a=other=3Did,m=x,n=us=2Cer,r=abc,tokenauth=true"
    message = ClientFirstMessage.parse(data)
    assert (message.sasl_name, message.nonce, message.authorization_id) == ("us=2Cer", "abc", "other=3Did")
    assert message.extensions == {"tokenauth": "true"}
    assert message.gs2_header == "n,a=other=3Did,"
    assert message.bare == "m=x,n=us=2Cer,r=abc,tokenauth=true"
    again = ClientFirstMessage("u", "r1", extensions={"tokenauth": "true"})
    assert again.to_bytes() == b"n,,n=u,r=r1,tokenauth=true"


@pytest.mark.parametrize(("kind", "data"), [
    (ClientFirstMessage, b""),
    (ClientFirstMessage, b"y,,n=user,r=abc"),
    (ClientFirstMessage, b"p=tls-unique,,n=user,r=abc"),
    (ClientFirstMessage, b"n,x,n=user,r=abc"),
    (ClientFirstMessage, b"n,,n=us=er,r=abc"),
    (ClientFirstMessage, b"n,,n=,r=abc"),
    (ClientFirstMessage, b"n,,n=user,r="),
    (ClientFirstMessage, b"n,,n=user,r=a b"),
    (ClientFirstMessage, b"n,,n=us\xff,r=abc"),
    (ClientFirstMessage, b"n,,n=user,r=abc\n"),
    (ServerFirstMessage, b"r=abc,s=AAA,i=4096"),
    (ServerFirstMessage, b"r=abc,s=AAAA,i=0"),
    (ServerFirstMessage, b"r=abc,s=AAAA,i=-1"),
    (ServerFirstMessage, b"r=abc,s=AAAA,i=99999999999"),
    (ServerFirstMessage, b"r=abc,s=AAAA"),
    (ClientFinalMessage, b"c=biws,r=abc"),
    (ClientFinalMessage, b"c=!,r=abc,p=AAAA"),
    (ServerFinalMessage, b"x=AAAA"),
    (ServerFinalMessage, b"e="),
])
def test_message_when_it_is_none_then_it_is_refused_and_not_repeated(kind: type, data: bytes) -> None:
    with pytest.raises(AuthenticationError, match="Invalid SCRAM") as raised:
        kind.parse(data)
    assert "abc" not in str(raised.value)


@pytest.mark.parametrize(("plain", "escaped"), [("user", "user"), ("a,b=c", "a=2Cb=3Dc"), ("=2C", "=3D2C"), ("", "")])
def test_names_when_escaped_and_back_then_they_are_the_same(plain: str, escaped: str) -> None:
    assert sasl_name(plain) == escaped
    assert user_name(escaped) == plain


def test_user_name_when_an_equals_sign_escapes_nothing_then_it_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid user name"):
        user_name("a=b")


def test_mechanisms_have_javas_numbers() -> None:
    assert [(mechanism.value, TYPE_CODES[mechanism]) for mechanism in ScramMechanism] == [
        ("SCRAM-SHA-256", 1), ("SCRAM-SHA-512", 2)]
    assert ScramMechanism("SCRAM-SHA-512") is ScramMechanism.SCRAM_SHA_512
    assert MECHANISMS[2] is ScramMechanism.SCRAM_SHA_512
    assert 3 not in MECHANISMS


def test_credential_when_generated_then_the_password_fits_it_and_nothing_of_it_is_shown() -> None:
    formatter = ScramFormatter(ScramMechanism.SCRAM_SHA_256)
    credential = generate_credential(formatter, "pencil", 5000)
    salted = formatter.salted_password("pencil", credential.salt, 5000)
    assert credential == credential_of(formatter, salted, credential.salt, 5000)
    assert repr(credential) == "ScramCredential(iterations=5000)"
    assert credential.salt != generate_credential(formatter, "pencil", 4096).salt


def test_xor_when_the_lengths_differ_then_it_is_refused() -> None:
    assert xor(b"\x00\x0f", b"\x00\xf0") == b"\x00\xff"
    with pytest.raises(ValueError, match="same length"):
        xor(b"a", b"ab")


def test_nonces_differ_and_have_allowed_characters_only() -> None:
    assert len({secure_random_string() for _ in range(100)}) == 100
    assert secure_random_string().isalnum()
