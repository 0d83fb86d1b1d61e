"""Settings of the security protocol and of TLS.

Road:    [rows] -> table -> ProducerConfig
Thread:  immutable.
Source:  Java CommonClientConfigs, SslConfigs, SecurityConfig (4.1).
"""

from __future__ import annotations

from pyproducer.common.settings.definition import OneOf, Setting, Support, Type

TLS: tuple[Setting, ...] = (
    Setting("security.protocol", Type.STRING, "PLAINTEXT", "How to talk to brokers.",
            OneOf(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), is_case_insensitive=True)),
    Setting("security.providers", Type.STRING, None, "Creators of JCA providers.", support=Support.JVM_ONLY),
    Setting("ssl.cipher.suites", Type.LIST, None,
            "Ciphers that may be used, by IANA or OpenSSL name; unset leaves the choice to OpenSSL."),
    Setting("ssl.enabled.protocols", Type.LIST, ("TLSv1.2", "TLSv1.3"), "TLS versions that are offered."),
    Setting("ssl.endpoint.identification.algorithm", Type.STRING, "https",
            "https checks that the certificate names the host; empty does not."),
    Setting("ssl.engine.factory.class", Type.CLASS, None,
            "An ssl.SSLContext, or a callable that returns one; the other ssl.* settings are then not used."),
    Setting("ssl.key.password", Type.PASSWORD, None, "Password of the private key."),
    Setting("ssl.keymanager.algorithm", Type.STRING, "SunX509", "The JVM's key manager.", support=Support.JVM_ONLY),
    Setting("ssl.keystore.certificate.chain", Type.PASSWORD, None, "Our certificate chain as PEM text."),
    Setting("ssl.keystore.key", Type.PASSWORD, None, "Our private key as PEM text."),
    Setting("ssl.keystore.location", Type.STRING, None,
            "A file with our private key and certificate chain: PEM, PKCS12 or JKS."),
    Setting("ssl.keystore.password", Type.PASSWORD, None, "Password of a JKS or PKCS12 store; PEM files have none."),
    Setting("ssl.keystore.type", Type.STRING, "JKS",
            "Format of the key store: PKCS12 (needs cryptography), JKS (needs pyjks) or PEM, which needs no type."),
    Setting("ssl.protocol", Type.STRING, "TLSv1.3", "The newest TLS version to use."),
    Setting("ssl.provider", Type.STRING, None, "A JCA provider.", support=Support.JVM_ONLY),
    Setting("ssl.secure.random.implementation", Type.STRING, None, "The JVM's random numbers.",
            support=Support.JVM_ONLY),
    Setting("ssl.trustmanager.algorithm", Type.STRING, "PKIX", "The JVM's trust manager.", support=Support.JVM_ONLY),
    Setting("ssl.truststore.certificates", Type.PASSWORD, None, "Trusted certificates as PEM text."),
    Setting("ssl.truststore.location", Type.STRING, None,
            "A file with the trusted certificates: PEM, PKCS12 or JKS; unset trusts the system's."),
    Setting("ssl.truststore.password", Type.PASSWORD, None, "Password of a JKS or PKCS12 store; PEM files have none."),
    Setting("ssl.truststore.type", Type.STRING, "JKS",
            "Format of the trust store: PKCS12 (needs cryptography), JKS (needs pyjks) or PEM, which needs no type."),
)
