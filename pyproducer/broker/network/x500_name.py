r"""Whose a certificate is, as Java names it: CN=client,OU=team,O=org, most specific part first.

    CN C L ST O OU STREET DC UID   keyword=value, with a backslash before , = + < > # ; " \ and blanks at the ends
    anything else, emailAddress or serialNumber too, or a value that is no text   its number=# and its DER in hex

Rules for principals (super.users, ACLs, ssl.principal.mapping.rules) are written for these names. What Python's ssl
tells of a certificate does not say of which type a value was, so its bytes are read here.

Road:    SslTransportLayer -> [x500 name] -> principal
Thread:  pure.
Source:  RFC 2253; Java X500Principal.getName(), AVA.toRFC2253String (17), whose answers the tests have.
"""

from __future__ import annotations

_KEYWORDS = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.10": "O", "2.5.4.11": "OU",
    "2.5.4.9": "STREET", "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}
_SEQUENCE = 0x30
_VERSION = 0xA0
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString. Java reads the bytes of each as UTF-8.
_TEXTS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANKS = " \r"


def subject_name(certificate: bytes) -> str:
    """Return the name of a certificate's subject; "" for one that has none.

    Args:
        certificate: In DER, as `ssl.SSLSocket.getpeercert(True)` gives it.

    Raises:
        ValueError: It is no certificate.
    """
    # certificate: to be signed, algorithm, signature; of these the first has
    # [version], serial number, algorithm, issuer, validity, subject, ...
    data = certificate
    for _ in range(2):
        elements = _elements(data)
        if not elements or elements[0][0] != _SEQUENCE:
            raise ValueError("this is no certificate")
        data = elements[0][1]
    fields = _elements(data)
    at = 5 if fields and fields[0][0] == _VERSION else 4
    if len(fields) <= at or fields[at][0] != _SEQUENCE:
        raise ValueError("this certificate has no subject")
    _, subject = fields[at]
    return ",".join(reversed([_part(part) for _, part in _elements(subject)]))


def _part(part: bytes) -> str:
    return "+".join(_attribute(attribute) for _, attribute in _elements(part))


def _attribute(attribute: bytes) -> str:
    elements = _elements(attribute)
    if len(elements) != 2:
        raise ValueError("this certificate's subject has something that is not a type and a value")
    (_, type_), (tag, value) = elements
    number = _object_id(type_)
    keyword = _KEYWORDS.get(number)
    if keyword is None or tag not in _TEXTS:
        return f"{keyword or number}=#{attribute[-len(value) - _header_size(value):].hex()}"
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    escaped = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in text)
    inner = escaped.lstrip(_BLANKS)
    leading = escaped[:len(escaped) - len(inner)]
    kept = inner.rstrip(_BLANKS)
    return "".join(f"\\{char}" for char in leading) + kept + "".join(f"\\{char}" for char in inner[len(kept):])


# ---- DER

def _elements(data: bytes) -> list[tuple[int, bytes]]:
    """Return tag and content of each element.

    Raises:
        ValueError: One does not end within the data, or is not of the definite form.
    """
    found = []
    position = 0
    while position < len(data):
        header = data[position:position + 2]
        if len(header) < 2:
            raise ValueError("an element of DER ends too early")
        tag, length = header
        position += 2
        if length >= 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[position:position + size], "big")
            position += size
            if not 0 < size <= 4:
                raise ValueError("an element of DER has no length")
        if position + length > len(data):
            raise ValueError("an element of DER ends too early")
        found.append((tag, data[position:position + length]))
        position += length
    return found


def _header_size(content: bytes) -> int:
    length = len(content)
    return 2 if length < 0x80 else 2 + (length.bit_length() + 7) // 8


def _object_id(data: bytes) -> str:
    """Return the numbers of an object identifier, with dots."""
    numbers: list[int] = []
    number = 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an object identifier is empty")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
