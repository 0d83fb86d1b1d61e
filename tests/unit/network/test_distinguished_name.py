from __future__ import annotations

from pyproducer.network.distinguished_name import distinguished_name


def test_name_when_it_has_parts_then_the_most_specific_comes_first() -> None:
    subject = ((("countryName", "DE"),), (("organizationName", "Acme, Inc."),), (("commonName", "client"),))
    assert distinguished_name(subject) == r"CN=client,O=Acme\, Inc.,C=DE"


def test_name_when_values_are_odd_then_escaped() -> None:
    subject = ((("commonName", " a"), ("userId", "#b")), (("emailAddress", "c "),))
    assert distinguished_name(subject) == "emailAddress=c\\ ,CN=\\ a+UID=\\#b"
