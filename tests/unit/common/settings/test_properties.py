"""Java's .properties files are read as Java reads them."""

from __future__ import annotations

from pathlib import Path

import javaproperties
import pytest

from pyproducer.common.errors import ConfigError
from pyproducer.common.settings.properties import read_properties
from pyproducer.producer.config import ProducerConfig

TEXT = r"""
# a comment
! another
bootstrap.servers = a:9092,\
                    b:9093
  linger.ms:7
client.id   caf\u00e9 \
    end
ssl.truststore.location=C:\\certs\\ca.pem
key\ with\ blanks=1
empty=
tab=a\tb
acks=1
acks=all
"""


def write(path: Path, content: bytes) -> Path:
    file = path / "client.properties"
    file.write_bytes(content)
    return file


def test_file_when_read_then_escapes_and_continued_lines_are_resolved(tmp_path: Path) -> None:
    assert read_properties(write(tmp_path, TEXT.encode())) == {
        "bootstrap.servers": "a:9092,b:9093", "linger.ms": "7", "client.id": "caf\u00e9 end",
        "ssl.truststore.location": "C:\\certs\\ca.pem", "key with blanks": "1", "empty": "", "tab": "a\tb",
        "acks": "all"}


def test_props_when_written_and_read_then_they_are_the_same(tmp_path: Path) -> None:
    props = {"a b": " leading", "c=d": "e:f#g!h", "i\\j": "k\nl\tm\r", "\u00fc": "\U0001f600 \u4e2d", "empty": ""}
    file = write(tmp_path, javaproperties.dumps(props, timestamp=False).encode("iso-8859-1"))
    assert read_properties(str(file)) == props


@pytest.mark.parametrize("content", ["client.id=caf\u00e9".encode(), "client.id=caf\u00e9".encode("iso-8859-1"),
                                     "\ufeffclient.id=caf\u00e9".encode()])
def test_file_when_in_utf8_or_latin_1_then_understood(tmp_path: Path, content: bytes) -> None:
    assert read_properties(write(tmp_path, content)) == {"client.id": "caf\u00e9"}


def test_file_when_an_escape_is_broken_then_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read as Java properties"):
        read_properties(write(tmp_path, rb"a=\u12"))
    with pytest.raises(ConfigError, match=r"line 2: a .u that four") as caught:
        read_properties(write(tmp_path, b"a=b\nssl.key.password=\\uhunter2"))
    assert "hunt" not in str(caught.value), "a piece of the value was"


def test_file_when_absent_then_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_properties(tmp_path / "absent")


def test_config_when_made_from_a_file_then_overrides_win(tmp_path: Path) -> None:
    file = write(tmp_path, b"bootstrap.servers=a:9092\nlinger.ms=7\nbatch.size=1\n")
    config = ProducerConfig.from_file(file, linger_ms=9, **{"client.id": "x"})
    assert (config.linger_ms, config.batch_size, config.client_id) == (9, 1, "x")
    assert config.bootstrap_servers == (("a", 9092),)
