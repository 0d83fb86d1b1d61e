from __future__ import annotations

import ssl

import pytest

from pyproducer.network.cipher_suites import choose_ciphers, openssl_name


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
