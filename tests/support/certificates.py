"""Certificates (PEM) for the tests of TLS, made anew in milliseconds: two authorities, servers, clients.

Source:  ours, over the `cryptography` package.

Every file is what Java's `ssl.*.type=PEM` and Python's `ssl` both read: keys are PKCS8 without a password, except the
one that says so. The extensions satisfy VERIFY_X509_STRICT, which Python 3.13 turns on.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

KEY_PASSWORD = "test-key-password"
VALID_FOR = datetime.timedelta(days=2)


class Identity(NamedTuple):
    """One certificate and its key."""

    certificate: Path  # the certificate alone
    key: Path  # PKCS8, no password
    encrypted_key: Path  # PKCS8, password KEY_PASSWORD
    keystore: Path  # key and certificate in one file, as Java's PEM keystore wants it


class Certificates(NamedTuple):
    """What make_certificates() writes."""

    ca: Path  # the authority that signed server, misnamed_server and client
    other_ca: Path  # an authority that signed other_client only
    server: Identity  # for localhost and 127.0.0.1
    misnamed_server: Identity  # for kafka.example.org only
    expired_server: Identity  # for localhost and 127.0.0.1, until two days ago
    future_server: Identity  # for localhost and 127.0.0.1, from two days on
    localhost_server: Identity  # for localhost, not for 127.0.0.1
    link_local_server: Identity  # for fe80::1 only
    self_signed_server: Identity  # for localhost and 127.0.0.1, by no authority
    client: Identity
    other_client: Identity


class _Authority(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_certificates(folder: Path) -> Certificates:
    """Write two authorities and what they signed into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = _make_authority("pyproducer test authority")
    other = _make_authority("another test authority")
    local_names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return Certificates(
        ca=_write(folder / "ca.pem", _pem(authority.certificate)),
        other_ca=_write(folder / "other-ca.pem", _pem(other.certificate)),
        server=_make_identity(folder, "server", authority, local_names),
        misnamed_server=_make_identity(folder, "misnamed-server", authority, [x509.DNSName("kafka.example.org")]),
        expired_server=_make_identity(folder, "expired-server", authority, local_names, age=2 * VALID_FOR),
        future_server=_make_identity(folder, "future-server", authority, local_names, age=-VALID_FOR),
        localhost_server=_make_identity(folder, "localhost-server", authority, [x509.DNSName("localhost")]),
        link_local_server=_make_identity(folder, "link-local-server", authority,
                                         [x509.IPAddress(ipaddress.ip_address("fe80::1"))]),
        self_signed_server=_make_identity(folder, "self-signed-server", None, local_names),
        client=_make_identity(folder, "client", authority, []),
        other_client=_make_identity(folder, "other-client", other, []),
    )


def _make_authority(name: str) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, subject, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(is_ca=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return _Authority(builder.sign(key, hashes.SHA256()), key)


def _make_identity(folder: Path, name: str, authority: _Authority | None, hosts: list[x509.GeneralName], *,
                   age: datetime.timedelta = datetime.timedelta()) -> Identity:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signs = key if authority is None else authority.key
    issuer_name = subject if authority is None else authority.certificate.subject
    builder = _builder(subject, issuer_name, key.public_key(), age=age)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(is_ca=False), critical=True)
    usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=False)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key())
    builder = builder.add_extension(issuer, critical=False)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    certificate = _pem(builder.sign(signs, hashes.SHA256()))
    plain_key = _key_pem(key, serialization.NoEncryption())
    encrypted = _key_pem(key, serialization.BestAvailableEncryption(KEY_PASSWORD.encode()))
    return Identity(
        certificate=_write(folder / f"{name}.pem", certificate),
        key=_write(folder / f"{name}.key", plain_key),
        encrypted_key=_write(folder / f"{name}.encrypted.key", encrypted),
        keystore=_write(folder / f"{name}.keystore.pem", plain_key + certificate),
    )


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, *,
             age: datetime.timedelta = datetime.timedelta()) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc) - age
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - datetime.timedelta(minutes=5)).not_valid_after(now + VALID_FOR)


def _key_usage(*, is_ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(digital_signature=True, content_commitment=False, key_encipherment=False,
                         data_encipherment=False, key_agreement=False, key_cert_sign=is_ca, crl_sign=is_ca,
                         encipher_only=False, decipher_only=False)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey, encryption: serialization.KeySerializationEncryption) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
