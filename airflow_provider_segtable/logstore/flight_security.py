"""Who may speak to a log store over the network: addresses, TLS and a token.

1. A store listens on loopback unless it is given another host. Beyond loopback it needs a token,
   and TLS, which hides the token.
2. With a certificate and its key, the store speaks TLS (``grpc+tls://``); clients are given the
   root certificates that they trust.
3. The token travels in a header of each call, and is compared in constant time.
"""

import hmac
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import flight

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.secret import Secret

HEADER = "authorization"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightSecurity:
    """What a store shows, and what its clients show. Certificates and key are PEM texts."""

    token: Secret | None = None
    certificate: str = ""
    key: Secret | None = None
    roots: str = ""

    @property
    def scheme(self) -> str:
        """Return the scheme of the store's addresses."""
        return "grpc+tls" if self.certificate else "grpc"

    def server_options(self, host: str) -> Mapping[str, Any]:
        """Return what a Flight server at ``host`` is made with.

        Raises:
            InvalidInput: the host is not loopback and there is no token, or no certificate to hide
                it; or a key is missing.
        """
        if not self.token and not _is_loopback(host):
            raise InvalidInput(
                f"a log store at {host} can be reached from other hosts, and has no token: give a "
                "token, or listen on 127.0.0.1"
            )
        if not self.certificate and not _is_loopback(host):
            raise InvalidInput(
                f"a log store at {host} can be reached from other hosts, and its token would "
                "travel unencrypted: give a certificate and its key, or listen on 127.0.0.1"
            )
        options: dict[str, Any] = {}
        if self.certificate:
            if not self.key:
                raise InvalidInput("the log store has a certificate without its key: give both")
            options["tls_certificates"] = [(self.certificate, self.key.reveal())]
        if self.token:
            options["middleware"] = {"token": _TokenCheck(self.token)}
        return options

    def client(self, address: str) -> Any:
        """Return a Flight client for an address; it connects with its first call."""
        roots = {"tls_root_certs": self.roots} if self.roots else {}
        return flight.FlightClient(address, **roots)

    def call_options(self, timeout_s: float) -> Any:
        """Return the options of a client's call, which ends after a time."""
        token = self.token
        headers = [(HEADER.encode(), _bearer(token).encode())] if token else []
        return flight.FlightCallOptions(timeout=timeout_s, headers=headers)


class _TokenCheck(flight.ServerMiddlewareFactory):
    """Refuses calls without the token."""

    def __init__(self, token: Secret) -> None:
        super().__init__()
        self._expected = _bearer(token).encode()

    def start_call(self, _: Any, headers: Mapping[str, Sequence[str]]) -> None:
        """Compare a call's token."""
        given = [value for name, value in headers.items() if name.lower() == HEADER]
        if not given or not hmac.compare_digest(given[0][0].encode(), self._expected):
            raise flight.FlightUnauthenticatedError("the log store refuses this token")


def _bearer(token: Secret) -> str:
    return f"Bearer {token.reveal()}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
