"""The names of certificates, as Java's X500Principal.getName() has them: what is expected here is what Java 17 said."""

from __future__ import annotations

import pytest

from pyproducer.broker.network.x500_name import subject_name

UTF8, PRINTABLE, T61, IA5, GENERAL, BMP, UNIVERSAL, NUMERIC, VISIBLE = (
    0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E, 0x1C, 0x12, 0x1A)
CN, SURNAME, SERIAL, C, L, ST, STREET, ORG, OU = (f"2.5.4.{number}" for number in (3, 4, 5, 6, 7, 8, 9, 10, 11))
TITLE, GIVEN_NAME, DESCRIPTION = "2.5.4.12", "2.5.4.42", "2.5.4.13"
DC, UID, EMAIL = "0.9.2342.19200300.100.1.25", "0.9.2342.19200300.100.1.1", "1.2.840.113549.1.9.1"


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    return bytes((tag, size) if size < 128 else (tag, 0x81, size) if size < 256 else (tag, 0x82, size >> 8, size & 255)
                 ) + content


def object_id(text: str) -> bytes:
    numbers = list(map(int, text.split(".")))
    encoded = b""
    for number in (numbers[0] * 40 + numbers[1], *numbers[2:]):
        groups = [number & 0x7F]
        while number := number >> 7:
            groups.insert(0, number & 0x7F | 0x80)
        encoded += bytes(groups)
    return der(0x06, encoded)


def attribute(type_: str, value: str | bytes, tag: int = UTF8) -> bytes:
    return der(0x30, object_id(type_) + der(tag, value if isinstance(value, bytes) else value.encode()))


def certificate(*parts: tuple[bytes, ...], has_version: bool = True) -> bytes:
    """A certificate with a subject, and with nothing true in the rest."""
    subject = der(0x30, b"".join(der(0x31, b"".join(part)) for part in parts))
    version = der(0xA0, der(0x02, b"\x02")) if has_version else b""
    before = version + der(0x02, b"\x01") + der(0x30, b"") + der(0x30, b"") + der(0x30, b"")
    return der(0x30, der(0x30, before + subject + der(0x30, b"")) + der(0x30, b"") + der(0x03, b"\0"))


@pytest.mark.parametrize(("parts", "expected"), [
    ([(attribute(C, "DE", PRINTABLE),), (attribute(ORG, "Acme, Inc."),), (attribute(CN, "client"),)],
     r"CN=client,O=Acme\, Inc.,C=DE"),
    ([(attribute(CN, "client"),), (attribute(EMAIL, "a@example.org", IA5),)],
     "1.2.840.113549.1.9.1=#160d61406578616d706c652e6f7267,CN=client"),
    ([(attribute(SERIAL, "1234", PRINTABLE),), (attribute(CN, "x=y"),)], r"CN=x\=y,2.5.4.5=#130431323334"),
    ([(attribute(TITLE, "Dr"),), (attribute(SURNAME, "M\u00fcller"),), (attribute(GIVEN_NAME, "Eva"),),
      (attribute(CN, "Eva"),)], "CN=Eva,2.5.4.42=#0c03457661,2.5.4.4=#0c074dc3bc6c6c6572,2.5.4.12=#0c024472"),
    ([(attribute(CN, "a"), attribute(UID, "b")), (attribute(DC, "example", IA5),), (attribute(DC, "org", IA5),)],
     "DC=org,DC=example,CN=a+UID=b"),
    ([(attribute(CN, " lead trail "),)], "CN=\\ lead trail\\ "),
    ([(attribute(CN, "#hash"),)], r"CN=\#hash"),
    ([(attribute(CN, "in#side"),)], r"CN=in\#side"),
    ([(attribute(CN, 'quote"back\\slash<>;+'),)], r'CN=quote\"back\\slash\<\>\;\+'),
    ([(attribute(CN, "nul\0nul"),)], r"CN=nul\00nul"),
    ([(attribute(CN, "tab\tnew\nline\rret"),)], "CN=tab\tnew\nline\rret"),
    ([(attribute(CN, "\u6d88\U0001f600"),)], "CN=\u6d88\U0001f600"),
    ([(attribute(CN, "bmp\u00e4".encode("utf-16-be"), BMP),)], "CN=\\00b\\00m\\00p\\00\ufffd"),
    ([(attribute(CN, b"t\xe4", T61),)], "CN=t\ufffd"),
    ([(attribute(CN, "universal".encode("utf-32-be"), UNIVERSAL),)],
     "CN=#1c24" + "universal".encode("utf-32-be").hex()),
    ([(attribute(CN, "123 4", NUMERIC),)], "CN=#12053132332034"),
    ([(attribute(CN, "visible", VISIBLE),)], "CN=#1a0776697369626c65"),
    ([(attribute(CN, "gen", GENERAL),)], "CN=gen"),
    ([(attribute(CN, ""),)], "CN="),
    ([], ""),
    ([(attribute(CN, "   "),)], "CN=\\ \\ \\ "),
    ([(attribute(CN, "\r x \r"),)], "CN=\\\r\\ x\\ \\\r"),
    ([(attribute(STREET, "1 High St"),), (attribute(L, "Bath"),), (attribute(ST, "Avon"),),
      (attribute(OU, "a/b?:'()-."),)], "OU=a/b?:'()-.,ST=Avon,L=Bath,STREET=1 High St"),
    ([(attribute("1.2.3.4", "v"),)], "1.2.3.4=#0c0176"),
    ([(attribute(UID, "u", PRINTABLE), attribute(CN, "c"))], "UID=u+CN=c"),
    ([(attribute(CN, b"\xff\xfe"),)], "CN=\ufffd\ufffd"),
    ([(attribute(DESCRIPTION, "d" * 200),)], "2.5.4.13=#0c81c8" + "64" * 200),
])
def test_name_when_a_subject_has_these_parts_then_it_is_the_one_that_java_writes(
        parts: list[tuple[bytes, ...]], expected: str) -> None:
    """With names of OpenSSL, and "=" as it was, an ACL that was written here did not hold in production."""
    assert subject_name(certificate(*parts)) == expected
    assert subject_name(certificate(*parts, has_version=False)) == expected


@pytest.mark.parametrize("data", [
    b"", b"\x30", b"\x30\x05\x01", b"\x30\x80\x00\x00", certificate((attribute(CN, "a"),))[:-40], b"\x30\x02\x30\x00"])
def test_name_when_it_is_no_certificate_then_that_is_said(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"certificate|DER|identifier"):
        subject_name(data)
