from __future__ import annotations

import errno
import os
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from pyproducer.common.errors import ConfigError
from pyproducer.network import ssl_context
from pyproducer.network.ssl_context import (
    LOOK_AGAIN_MS,
    ContextFromFiles,
    build_client_ssl_context,
    build_server_ssl_context,
    choose_ciphers,
    openssl_name,
)
from tests.support.certificates import KEY_PASSWORD, Certificates, Identity
from tests.support.clock import ManualClock

V1_2, V1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def inline(identity: Identity, *, encrypted: bool = False) -> dict[str, Any]:
    key = identity.encrypted_key if encrypted else identity.key
    return {"ssl.keystore.key": key.read_text(), "ssl.keystore.certificate.chain": identity.certificate.read_text()}


def test_client_when_nothing_is_set_then_names_and_certificates_are_checked() -> None:
    context = build_client_ssl_context({})
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert (context.minimum_version, context.maximum_version) == (V1_2, V1_3)


def test_client_when_the_algorithm_is_empty_then_certificates_are_still_checked() -> None:
    context = build_client_ssl_context({"ssl.endpoint.identification.algorithm": ""})
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_truststore_when_a_file_or_a_text_then_only_its_authorities_are_trusted(certificates: Certificates) -> None:
    by_file = build_client_ssl_context({"ssl.truststore.location": str(certificates.ca)})
    by_text = build_client_ssl_context({"ssl.truststore.certificates": certificates.ca.read_text()})
    assert by_file.get_ca_certs() == by_text.get_ca_certs()
    assert len(by_file.get_ca_certs()) == 1


def test_truststore_when_it_holds_two_as_text_then_both_are_trusted(certificates: Certificates) -> None:
    text = certificates.ca.read_text() + certificates.other_ca.read_text()
    assert len(build_client_ssl_context({"ssl.truststore.certificates": text}).get_ca_certs()) == 2


@pytest.mark.parametrize("encrypted", [False, True])
def test_keystore_when_given_as_text_then_loaded_and_no_file_is_left(
        certificates: Certificates, encrypted: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = {**inline(certificates.client, encrypted=encrypted), "ssl.key.password": KEY_PASSWORD}
    build_client_ssl_context(settings)
    monkeypatch.delattr(os, "memfd_create", raising=False)  # the road of other systems
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    build_client_ssl_context(settings)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("password", "why"), [
    (None, "set ssl.key.password"), ("wrong", "ssl.key.password does not open"),
    ("x" * 5000, "ssl.key.password does not open"), ("\ud800", "ssl.key.password does not open")], ids=ascii)
def test_keystore_when_the_password_does_not_fit_then_the_error_says_so(
        certificates: Certificates, password: str | None, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        build_client_ssl_context({**inline(certificates.client, encrypted=True), "ssl.key.password": password})
    assert caught.value.key == "ssl.keystore.key"
    assert "PRIVATE KEY" not in str(caught.value)


def test_keystore_when_key_and_certificate_differ_then_the_error_says_so(certificates: Certificates) -> None:
    settings = {**inline(certificates.client), "ssl.keystore.key": certificates.server.key.read_text()}
    with pytest.raises(ConfigError, match="does not belong"):
        build_client_ssl_context(settings)


@pytest.mark.parametrize(("settings", "key", "why"), [
    ({"ssl.keystore.location": "/nowhere/at/all.pem"}, "ssl.keystore.location", "cannot be read: No such file"),
    ({"ssl.truststore.location": "/nowhere/at/all.pem"}, "ssl.truststore.location", "cannot be read: No such file"),
    ({"ssl.keystore.location": "with\0null.pem"}, "ssl.keystore.location", "cannot be read: embedded null byte"),
    ({"ssl.truststore.location": "with\0null.pem"}, "ssl.truststore.location", "cannot be read: embedded null byte"),
    ({"ssl.truststore.certificates": "nonsense"}, "ssl.truststore.certificates", "no certificates in PEM"),
    ({"ssl.keystore.key": "nonsense", "ssl.keystore.certificate.chain": "x"}, "ssl.keystore.key", "in PEM"),
    ({"ssl.enabled.protocols": "TLSv1.1"}, "ssl.enabled.protocols", "older versions"),
    ({"ssl.enabled.protocols": ["TLSv1.3"], "ssl.protocol": "TLSv1.2"}, "ssl.protocol", "only newer"),
    ({"ssl.cipher.suites": "NO_SUCH_SUITE"}, "ssl.cipher.suites", "knows none"),
    ({"ssl.cipher.suites": ["TLS_AES_128_GCM_SHA256"], "ssl.enabled.protocols": ["TLSv1.2"]}, "ssl.cipher.suites",
     "no suite of a version"),
    ({"ssl.engine.factory.class": "org.example.Factory"}, "ssl.engine.factory.class", "SSLContext"),
])
def test_client_when_a_setting_is_wrong_then_the_error_names_it(settings: dict[str, Any], key: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        build_client_ssl_context(settings)
    assert caught.value.key == key


@pytest.mark.parametrize(("settings", "versions"), [
    ({"ssl.enabled.protocols": "TLSv1.2"}, (V1_2, V1_2)),
    ({"ssl.enabled.protocols": ("TLSv1.3",)}, (V1_3, V1_3)),
    ({"ssl.protocol": "TLSv1.2"}, (V1_2, V1_2)),
    ({"ssl.protocol": "TLS"}, (V1_2, V1_3)),
    ({"ssl.cipher.suites": ["TLS_AES_256_GCM_SHA384"]}, (V1_3, V1_3)),
    ({"ssl.cipher.suites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]}, (V1_2, V1_2)),
])
def test_versions_when_restricted_then_the_context_is(
        settings: dict[str, Any], versions: tuple[object, object]) -> None:
    context = build_client_ssl_context(settings)
    assert (context.minimum_version, context.maximum_version) == versions


def test_ciphers_when_given_by_the_jvms_names_then_only_they_are_left() -> None:
    context = build_client_ssl_context({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"})
    names = {cipher["name"] for cipher in context.get_ciphers() if not cipher["name"].startswith("TLS_")}
    assert names == {"ECDHE-RSA-AES128-GCM-SHA256"}


def test_factory_when_it_is_a_context_or_makes_one_then_it_is_used() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert build_client_ssl_context({"ssl.engine.factory.class": context}) is context
    assert build_client_ssl_context({"ssl.engine.factory.class": lambda: context}) is context


def other_authority(file: Path, certificates: Certificates) -> None:
    """As tools that renew certificates do it: a new file takes the place of the old one."""
    new = file.with_suffix(".new")
    new.write_bytes(certificates.other_ca.read_bytes())
    new.replace(file)


def test_files_when_they_change_then_the_next_connection_has_a_new_context(
        certificates: Certificates, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(certificates.ca.read_bytes())
    context_of_now = ContextFromFiles({"ssl.truststore.location": str(file)})
    first = context_of_now()
    assert context_of_now() is first  # nothing has changed, so nothing is read
    other_authority(file, certificates)
    second = context_of_now()
    assert second is not first
    assert second.get_ca_certs() != first.get_ca_certs()
    assert context_of_now() is second


@pytest.mark.parametrize("damage", [lambda file: file.write_text("half"), lambda file: file.unlink()])
def test_file_when_it_cannot_be_used_then_the_old_context_stays_and_one_warning_says_why(
        certificates: Certificates, tmp_path: Path, damage: Callable[[Path], object],
        caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(certificates.ca.read_bytes())
    context_of_now = ContextFromFiles({"ssl.truststore.location": str(file)})
    first = context_of_now()
    damage(file)
    assert context_of_now() is context_of_now() is first
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert f"those of before stay in use: Invalid value '{file}' for configuration ssl.truststore" in record.message
    other_authority(file, certificates)
    assert context_of_now() is not first


def test_file_when_it_is_moved_to_the_place_of_a_missing_one_then_the_one_that_is_missing_now_is_named(
        certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys, trusted = tmp_path / "keys.pem", tmp_path / "trusted.pem"
    keys.write_bytes(certificates.client.keystore.read_bytes())
    trusted.write_bytes(certificates.ca.read_bytes())
    context_of_now = ContextFromFiles({"ssl.keystore.location": str(keys), "ssl.truststore.location": str(trusted)})
    for damage, missing in ((trusted.unlink, trusted), (lambda: keys.rename(trusted), keys)):
        damage()
        caplog.clear()
        context_of_now()
        assert f"Invalid value '{missing}'" in caplog.text


def test_key_when_it_comes_before_its_certificate_then_the_old_pair_stays(
        certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(certificates.client.keystore.read_bytes())
    context_of_now = ContextFromFiles({"ssl.keystore.location": str(file)})
    first = context_of_now()
    file.write_bytes(certificates.other_client.key.read_bytes() + certificates.client.certificate.read_bytes())
    assert context_of_now() is first
    assert "does not belong" in caplog.text
    file.write_bytes(certificates.other_client.keystore.read_bytes())
    assert context_of_now() is not first


def held(tmp_path: Path, certificates: Certificates) -> tuple[Path, ManualClock, ContextFromFiles]:
    file = tmp_path / "ca.pem"
    file.write_bytes(certificates.ca.read_bytes())
    clock = ManualClock()
    return file, clock, ContextFromFiles({"ssl.truststore.location": str(file)}, clock)


def no_descriptors(*_arguments: Any, **_more: Any) -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_file_when_it_could_not_be_read_in_that_moment_then_it_is_looked_at_again_after_a_pause(
        certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture) -> None:
    """A process that was out of descriptors kept the old certificates for ever: the file did not change any more."""
    file, clock, context_of_now = held(tmp_path, certificates)
    first = context_of_now()
    other_authority(file, certificates)
    tries: list[str] = []
    with monkeypatch.context() as out:
        out.setattr(ssl_context, "open", lambda *arguments: (tries.append("open"), no_descriptors()), raising=False)
        for expected in (1, 2, 3):
            assert context_of_now() is context_of_now() is first
            assert len(tries) == expected
            clock.advance(LOOK_AGAIN_MS)
    [record] = caplog.records  # the reason is the same each time
    assert "Too many open files" in record.message
    second = context_of_now()
    assert second.get_ca_certs() != first.get_ca_certs()
    clock.advance(LOOK_AGAIN_MS)
    assert context_of_now() is second


def test_file_when_the_reason_is_another_one_or_there_was_a_good_one_between_then_it_is_said_again(
        certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, _clock, context_of_now = held(tmp_path, certificates)
    first = context_of_now()
    good = file.read_bytes()
    for text in (b"half", None, b"half"):
        file.unlink() if text is None else file.write_bytes(text)
        assert context_of_now() is first
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    file.write_bytes(good)
    assert context_of_now() is not first
    file.write_bytes(b"half")
    context_of_now()
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 4


def test_file_when_a_link_led_elsewhere_for_a_while_and_does_so_again_then_it_is_said_again(
        certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Kubernetes flips a link; the files that it leads to are as they were, to the nanosecond."""
    good, bad, link = tmp_path / "good.pem", tmp_path / "bad.pem", tmp_path / "link.pem"
    good.write_bytes(certificates.ca.read_bytes())
    bad.write_bytes(b"half")
    link.symlink_to(good)
    context_of_now = ContextFromFiles({"ssl.truststore.location": str(link)}, ManualClock())
    first = context_of_now()
    for target, count in ((bad, 1), (bad, 1), (good, 1), (bad, 2)):
        link.unlink()
        link.symlink_to(target)
        assert context_of_now() is first
        assert [record.levelname for record in caplog.records] == ["WARNING"] * count


def test_file_when_it_is_there_again_as_it_was_then_the_context_that_is_in_use_will_do(
        certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a file system of the network that is away for a moment."""
    _file, clock, context_of_now = held(tmp_path, certificates)
    first = context_of_now()
    with monkeypatch.context() as away:
        away.setattr(os, "stat", no_descriptors)
        away.setattr(ssl_context, "open", no_descriptors, raising=False)
        assert context_of_now() is first
    assert context_of_now() is first
    clock.advance(LOOK_AGAIN_MS)
    assert context_of_now() is first


def test_file_when_only_its_mode_has_changed_then_it_is_read(certificates: Certificates, tmp_path: Path) -> None:
    """What root renamed into place is unreadable until chmod, which leaves time, inode and size as they are."""
    file, _clock, context_of_now = held(tmp_path, certificates)
    first = context_of_now()
    before = os.stat(file)
    while os.stat(file).st_ctime_ns == before.st_ctime_ns:  # the clock of a file system may be coarse
        file.chmod(0o600)
        file.chmod(0o640)
    assert os.stat(file).st_mtime_ns == before.st_mtime_ns
    assert context_of_now() is not first


@pytest.mark.parametrize("by", ["text", "store"])
def test_key_when_it_cannot_be_held_in_memory_then_it_is_an_error_of_its_setting_and_tried_again(
        certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
        by: str) -> None:
    """It left the call as a failed connection to the broker, and the next one had the old context without a word."""
    file = tmp_path / "ca.pem"
    file.write_bytes(certificates.ca.read_bytes())
    settings = {"ssl.truststore.location": str(file), **inline(certificates.client)}
    key = "ssl.keystore.key"
    if by == "store":
        key, store = "ssl.keystore.location", tmp_path / "key.p12"
        private = serialization.load_pem_private_key(certificates.client.key.read_bytes(), None)
        own = x509.load_pem_x509_certificate(certificates.client.certificate.read_bytes())
        store.write_bytes(pkcs12.serialize_key_and_certificates(
            b"k", private, own, None, serialization.BestAvailableEncryption(b"password")))  # type: ignore[arg-type]
        settings = {"ssl.truststore.location": str(file), key: str(store), "ssl.keystore.password": "password"}
    clock = ManualClock()
    context_of_now = ContextFromFiles(settings, clock)
    first = context_of_now()
    other_authority(file, certificates)
    with monkeypatch.context() as out:
        out.setattr(os, "memfd_create", no_descriptors)
        out.setattr(tempfile, "mkstemp", no_descriptors)
        assert context_of_now() is context_of_now() is first
        with pytest.raises(ConfigError, match="Too many open files") as caught:
            build_client_ssl_context(settings)
    assert caught.value.key == key
    [record] = caplog.records
    assert f"for configuration {key}: " in record.message
    assert "BEGIN" not in record.message
    clock.advance(LOOK_AGAIN_MS)
    assert context_of_now().get_ca_certs() != first.get_ca_certs()


def test_context_when_openssl_has_no_room_for_one_then_the_old_one_stays_and_it_is_tried_again(
        certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture) -> None:
    file, clock, context_of_now = held(tmp_path, certificates)
    first = context_of_now()
    other_authority(file, certificates)
    with monkeypatch.context() as out:
        out.setattr(ssl, "SSLContext", no_descriptors)
        assert context_of_now() is context_of_now() is first
    assert len(caplog.records) == 1
    clock.advance(LOOK_AGAIN_MS)
    assert context_of_now() is not first


def test_end_of_our_certificate_when_a_new_one_cannot_be_used_then_it_is_that_of_the_one_in_use(
        certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was the new file's: nobody was alerted while the old certificate came to its end."""
    ends = {str(certificates.client.keystore): 1_000, str(certificates.other_client.keystore): 2_000}
    by_text = {Path(path).read_text(): end for path, end in ends.items()}
    monkeypatch.setattr(ssl_context, "file_ends_at_s", lambda path: by_text[Path(path).read_text()])
    file = tmp_path / "key.pem"
    file.write_bytes(certificates.client.keystore.read_bytes())
    context_of_now = ContextFromFiles({"ssl.keystore.location": str(file)}, clock := ManualClock())
    assert context_of_now.identity_ends_at_s() == 1_000
    with monkeypatch.context() as out:
        out.setattr(ssl_context, "open", no_descriptors, raising=False)
        file.write_bytes(certificates.other_client.keystore.read_bytes())
        assert context_of_now.identity_ends_at_s() == 1_000
    clock.advance(LOOK_AGAIN_MS)
    assert context_of_now.identity_ends_at_s() == 2_000  # without a connection in between
    file.unlink()
    assert context_of_now.identity_ends_at_s() == 2_000


@pytest.mark.parametrize("settings", [{}, {"ssl.engine.factory.class": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)}])
def test_end_of_our_certificate_when_there_is_none_or_the_context_is_the_users_then_none(
        settings: dict[str, Any]) -> None:
    assert ContextFromFiles(settings).identity_ends_at_s() is None


def test_own_context_when_given_then_files_of_other_settings_are_not_looked_at(tmp_path: Path) -> None:
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    settings = {"ssl.engine.factory.class": own, "ssl.truststore.location": str(tmp_path / "no")}
    context_of_now = ContextFromFiles(settings)
    assert context_of_now() is own


@pytest.mark.parametrize(("client_auth", "mode"), [
    ("none", ssl.CERT_NONE), ("requested", ssl.CERT_OPTIONAL), ("required", ssl.CERT_REQUIRED)])
def test_server_when_clients_must_show_certificates_then_the_context_asks(
        certificates: Certificates, client_auth: str, mode: ssl.VerifyMode) -> None:
    context = build_server_ssl_context(keystore_location=str(certificates.server.keystore), client_auth=client_auth,
                                       truststore_location=str(certificates.ca))
    assert context.verify_mode is mode


def test_server_when_a_setting_is_wrong_then_the_error_names_it(certificates: Certificates) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.client\.auth"):
        build_server_ssl_context(keystore_location=str(certificates.server.keystore), client_auth="maybe")
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        build_server_ssl_context(keystore_location=str(certificates.ca))


@pytest.mark.parametrize(("jvm", "openssl"), [
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
    ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"),
    ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
    ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8", "ECDHE-ECDSA-AES128-CCM8"),
    ("TLS_DHE_RSA_WITH_AES_128_CCM", "DHE-RSA-AES128-CCM"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
])
def test_name_when_the_jvms_then_openssl_knows_its_own(jvm: str, openssl: str) -> None:
    assert openssl_name(jvm) == openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(openssl + ":@SECLEVEL=0")
    assert openssl in {cipher["name"] for cipher in context.get_ciphers()}


@pytest.mark.parametrize(("suites", "tls_1_2", "allows_tls_1_3"), [
    (["TLS_AES_128_GCM_SHA256"], "", True),
    (["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], "ECDHE-RSA-AES128-GCM-SHA256", True),
    ([" ECDHE-RSA-AES128-GCM-SHA256 ", "", "AES128-SHA"], "ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA", False),
])
def test_choice_when_versions_are_mixed_then_split(suites: list[str], tls_1_2: str, allows_tls_1_3: bool) -> None:
    assert choose_ciphers(suites) == (tls_1_2, allows_tls_1_3)


# SSLContext.getSupportedSSLParameters().getCipherSuites() of JDK 17.0.15, but for those of TLS 1.3.
JDK_17 = [
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_DHE_DSS_WITH_AES_256_GCM_SHA384", "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_DHE_DSS_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256",
    "TLS_DHE_DSS_WITH_AES_256_CBC_SHA256", "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_DHE_DSS_WITH_AES_128_CBC_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "TLS_DHE_RSA_WITH_AES_256_CBC_SHA", "TLS_DHE_DSS_WITH_AES_256_CBC_SHA",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA", "TLS_DHE_DSS_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_256_CBC_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA", "TLS_RSA_WITH_AES_128_CBC_SHA",
]


@pytest.mark.parametrize("suite", JDK_17)
def test_suite_when_a_jdk_has_it_then_openssl_finds_exactly_that_one(suite: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers(openssl_name(suite))
    assert [each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"] == [openssl_name(suite)]
