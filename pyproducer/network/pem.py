"""PEM text in any form that settings bring it in, as OpenSSL reads it.

    -----BEGIN CERTIFICATE----- MIIB... ab== -----END CERTIFICATE-----    all on one line: an environment variable, Helm
    # Our authority                                                       words around the blocks, in any language
    -----BEGIN CERTIFICATE-----...

The end of a line may also stand there as two letters, a backslash and an n, as JSON and shells leave it. Java takes any
blank where PEM has the ends of lines, and words before and behind the blocks; OpenSSL wants lines of 64 letters, and
Python's ssl no letter beyond ASCII in all the text.

Road:    ssl.*.certificates, ssl.keystore.key, .certificate.chain, files of PEM -> [pem] -> ssl context
Thread:  pure.
Source:  RFC 7468, RFC 1421 (the headers of an encrypted key); Java DefaultSslEngineFactory.PemStore.PemParser (4.1).
"""

from __future__ import annotations

import re

_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+?)\s*-----(?P<body>.*?)-----END (?P<end>[A-Z0-9 ]+?)\s*-----",
                    re.DOTALL)
_HEADERS = re.compile(r"\s*Proc-Type:\s*(?P<type>4,ENCRYPTED)\s+DEK-Info:\s*(?P<info>[A-Z0-9-]+,[0-9A-Fa-f]+)\s+")
_BLANKS = re.compile(r"(?:\\[nr]|\s)+")  # also those that somebody wrote as two letters
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_LINE = 64


def normalized_pem(text: str) -> str:
    """Return the blocks of a text, each with its lines, and nothing else; the text itself where it has none.

    A block with something in it that is not base64 stays as it is, in ASCII: what reads it says so.
    """
    blocks = [_lines(match) or f"{match.group().encode('ascii', 'replace').decode()}\n"
              for match in _BLOCK.finditer(text)]
    return "".join(blocks) or text


def pem_fault(text: str) -> str | None:
    """Return what is wrong with the blocks of a text, and nothing of what they hold; None where nothing is."""
    count = 0
    for match in _BLOCK.finditer(text):
        count += 1
        label = match["label"]
        if match["end"] != label:
            return f"a block of it begins as {label} and ends as {match['end']}"
        if _lines(match) is None:
            return f"what stands between BEGIN {label} and its END is not base64"
    if text.count("-----BEGIN ") > count:
        return "a block of it has no end: each needs a line '-----END ...-----' of its own"
    return None


def _lines(match: re.Match[str]) -> str | None:
    label = match["label"]
    body = _BLANKS.sub("\n", match["body"])
    headers = _HEADERS.match(body)
    lines = [f"-----BEGIN {label}-----"]
    if headers is not None:
        lines += [f"Proc-Type: {headers['type']}", f"DEK-Info: {headers['info']}", ""]
        body = body[headers.end():]
    body = body.replace("\n", "")
    if not _BASE64.fullmatch(body):
        return None
    lines += [body[begin:begin + _LINE] for begin in range(0, len(body), _LINE)]
    return "\n".join([*lines, f"-----END {label}-----", ""])
