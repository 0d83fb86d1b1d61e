"""What a client with an id and a secret asks of a token endpoint.

    POST   Authorization: Basic base64(id:secret)      grant_type=client_credentials&scope=...

Road:    settings -> [ClientCredentials] -> TokenEndpoint
Thread:  immutable; used by the login's.
Source:  Java ClientCredentialsJwtRetriever, ClientCredentialsRequestFormatter (4.1); RFC 6749 2.3.1, 4.4; KIP-768,
         KIP-1025 (header.urlencode). Differs from Java: the scope is always encoded in the body, which is a form; Java
         does so only with header.urlencode, and issuers read both.
"""

from __future__ import annotations

import base64
from urllib.parse import quote_plus

from pyproducer.common.errors import ConfigError

ID_KEY = "sasl.oauthbearer.client.credentials.client.id"
SECRET_KEY = "sasl.oauthbearer.client.credentials.client.secret"


class ClientCredentials:
    """A TokenRequest.

    Args:
        client_id: The client's id.
        client_secret: Its secret.
        scope: What is asked for; "" for what the issuer gives by itself.
        audience: For whom; "" where that is not said. Auth0 and others want it; Java has no setting for it.
        urlencodes_header: Encode id and secret before they are joined, as RFC 6749 says and few issuers want.

    Raises:
        ConfigError: Id or secret is empty. Nothing was started.
    """

    def __init__(self, client_id: str, client_secret: str, scope: str = "", *, audience: str = "",
                 urlencodes_header: bool = False) -> None:
        self._audience = audience.strip()
        self._id, self._secret, self._scope = client_id.strip(), client_secret.strip(), scope.strip()
        if not self._id:
            raise ConfigError(ID_KEY, client_id, "it is required, here or as the option clientId of sasl.jaas.config")
        if not self._secret:
            raise ConfigError(SECRET_KEY, None, "it is required, here or as the option clientSecret of "
                                                "sasl.jaas.config")
        if urlencodes_header:
            self._id, self._secret = quote_plus(self._id), quote_plus(self._secret)

    def __repr__(self) -> str:
        return f"<ClientCredentials of {self._id}>"

    def headers(self) -> dict[str, str]:
        """Return who asks."""
        return {"Authorization": f"Basic {self._joined()}"}

    def body(self) -> str:
        """Return what is asked for."""
        scope = f"&scope={quote_plus(self._scope)}" if self._scope else ""
        audience = f"&audience={quote_plus(self._audience)}" if self._audience else ""
        return f"grant_type=client_credentials{scope}{audience}"

    def secrets(self) -> tuple[str, ...]:
        """Return the secret, as it is and as it is sent."""
        return self._secret, self._joined()

    def _joined(self) -> str:
        return base64.b64encode(f"{self._id}:{self._secret}".encode()).decode()
