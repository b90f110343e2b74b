"""A metadata service on loopback that gives credentials which end, as a cloud's machines have it.

1. The instance's own service (IMDSv2): a session token by PUT, then the role, then its credentials.
2. The container's service (``AWS_CONTAINER_CREDENTIALS_FULL_URI``).
3. The security token service, as far as ``AssumeRole`` goes.
4. Each answer has a new session token, which names its end. ``TokenGate`` lets a request pass to
   the store only with a token that has not ended. So a client that never renews fails.
5. Both are processes of their own, for the reason in ``faulty_proxy``.
"""

import json
import multiprocessing
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.integration.scripted_http import reply
from tests.stores.faulty_proxy import Asked, FaultyProxy, body_of

ROLE = "lake-role"
_SIGNED = re.compile(r"SignedHeaders=([^,]+)")
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The store's key pair, and the part of a session token that no reader may see."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session: str = field(repr=False)

    def token(self, ends_at: float) -> str:
        """Return a session token that ends at a time."""
        return f"{self.session}-{ends_at:.3f}"


def _zulu(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class MetadataServer(FaultyProxy):
    """Gives credentials that are valid for ``lasts_s``; ``given`` counts them.

    Clients renew credentials some minutes before they say that they end. ``announced_s`` is what
    they say, so that a test need not wait for minutes.
    """

    def __init__(self, keys: Keys, *, lasts_s: float, announced_s: float) -> None:
        """Give the session tokens of ``keys``."""
        super().__init__(0)
        self._keys, self._lasts_s, self._announced_s = keys, lasts_s, announced_s
        self._given: Any = _FORK.Value("i", 0)
        self.endpoint = f"http://127.0.0.1:{self.port}"

    @property
    def given(self) -> int:
        """Return how many times credentials were given."""
        return int(self._given.value)

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        body = body_of(request)
        path = request.path.rstrip("/")
        role = "/latest/meta-data/iam/security-credentials"
        if request.command == "PUT" and path == "/latest/api/token":
            reply(request, 200, {"X-aws-ec2-metadata-token-ttl-seconds": "600"}, b"imds-session")
        elif path.startswith("/latest/") and not request.headers.get("X-aws-ec2-metadata-token"):
            reply(request, 401, {}, b"")  # version 1 is off
        elif path == role:
            reply(request, 200, {"content-type": "text/plain"}, ROLE.encode())
        elif path in {f"{role}/{ROLE}", "/container"}:
            reply(request, 200, {"content-type": "application/json"}, self._json())
        elif request.command == "POST" and parse_qs(body).get(b"Action") == [b"AssumeRole"]:
            reply(request, 200, {"content-type": "text/xml"}, self._xml())
        else:
            reply(request, 404, {}, b"")

    def _new(self) -> tuple[str, str]:
        """Return a session token, and when clients shall believe that it ends."""
        with self._given.get_lock():
            self._given.value += 1
        now = time.time()
        return self._keys.token(now + self._lasts_s), _zulu(now + self._announced_s)

    def _json(self) -> bytes:
        token, ends = self._new()
        return json.dumps(
            {
                "Code": "Success",
                "Type": "AWS-HMAC",
                "AccessKeyId": self._keys.access_key_id,
                "SecretAccessKey": self._keys.secret_access_key,
                "Token": token,
                "LastUpdated": _zulu(time.time()),
                "Expiration": ends,
            }
        ).encode()

    def _xml(self) -> bytes:
        token, ends = self._new()
        inner = (
            f"<AccessKeyId>{self._keys.access_key_id}</AccessKeyId>"
            f"<SecretAccessKey>{self._keys.secret_access_key}</SecretAccessKey>"
            f"<SessionToken>{token}</SessionToken><Expiration>{ends}</Expiration>"
        )
        result = f"<AssumeRoleResult><Credentials>{inner}</Credentials></AssumeRoleResult>"
        space = "https://sts.amazonaws.com/doc/2011-06-15/"
        return f'<AssumeRoleResponse xmlns="{space}">{result}</AssumeRoleResponse>'.encode()


class TokenGate(FaultyProxy):
    """Forwards requests that are signed with ``keys`` and a session token that has not ended.

    The store behind it knows no session tokens: the gate checks the signature, takes the token away
    and signs again.
    """

    def __init__(self, to: int, keys: Keys) -> None:
        """Stand in front of the store at port ``to``."""
        super().__init__(to)
        self._keys = keys
        self._refused: Any = _FORK.Value("i", 0)
        self._passed: Any = _FORK.Value("i", 0)

    @property
    def passed(self) -> int:
        """Return how many requests had a valid token."""
        return int(self._passed.value)

    @property
    def refused(self) -> int:
        """Return how many requests had a token that had ended, or none."""
        return int(self._refused.value)

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        asked = Asked(
            request.command, request.path, dict(request.headers.items()), body_of(request)
        )
        status, code = self._judged(asked)
        with self._refused.get_lock():
            (self._refused if status else self._passed).value += 1
        if status:
            reply(request, status, {}, f"<Error><Code>{code}</Code></Error>".encode())
        else:
            self.send_on(request, asked)

    def _judged(self, asked: Asked) -> tuple[int, str]:
        """Return the status and code of a refusal, or 0; a good request gets its new signature."""
        headers = {name.lower(): value for name, value in asked.headers.items()}
        session, _, ends = headers.get("x-amz-security-token", "").rpartition("-")
        signed = _SIGNED.search(headers.get("authorization", ""))
        if session != self._keys.session or signed is None:
            return 403, "AccessDenied"
        names = signed[1].split(";")
        if headers["authorization"] != self._signed(asked, headers, names):
            return 403, "SignatureDoesNotMatch"
        if time.time() >= float(ends):
            return 400, "ExpiredToken"
        del headers["x-amz-security-token"]
        names.remove("x-amz-security-token")
        headers["authorization"] = self._signed(asked, headers, names)
        asked.headers = headers
        return 0, ""

    def _signed(self, asked: Asked, headers: dict[str, str], names: list[str]) -> str:
        """Return the header that signs a request."""
        region = headers["authorization"].split("/")[2]
        keys = Credentials(self._keys.access_key_id, self._keys.secret_access_key)
        sign = S3SigV4Auth(keys, "s3", region)
        url = f"http://{headers['host']}{asked.path}"
        request = AWSRequest(asked.method, url, {name: headers[name] for name in names})
        request.context["timestamp"] = headers["x-amz-date"]
        text = sign.string_to_sign(request, sign.canonical_request(request))
        scope = f"AWS4-HMAC-SHA256 Credential={sign.scope(request)}"
        signature = sign.signature(text, request)
        separator = ", " if ", " in headers["authorization"] else ","
        return separator.join([scope, f"SignedHeaders={';'.join(names)}", f"Signature={signature}"])
