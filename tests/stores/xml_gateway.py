"""Google's XML interface in front of fake-gcs-server, which has only parts of it.

obstore puts and lists by the XML interface, pyarrow by the JSON interface. fake-gcs-server answers
both for reads. A put by XML becomes one by JSON, with its condition, and so does a listing; all
else is passed on as it is. The server itself decides each condition.
"""

import json
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

from tests.integration.scripted_http import reply
from tests.stores.faulty_proxy import Asked, FaultyProxy, body_of, send_on

_API = ("/storage/", "/upload/", "/batch/", "/download/", "/resumable/", "/b/", "/_internal/")


class XmlGateway(FaultyProxy):
    """Translates puts and listings of the XML interface."""

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        asked = Asked(
            request.command, request.path, dict(request.headers.items()), body_of(request)
        )
        place = urlsplit(asked.path)
        bucket, _, name = place.path.lstrip("/").partition("/")
        of_xml = not place.path.startswith(_API)
        if of_xml and asked.method == "PUT" and name:
            self._put(request, asked, bucket, name)
        elif of_xml and asked.method == "GET" and not name:
            self._list(request, bucket, place.query)
        else:  # the server knows the interface by the host that it was started with
            named = {n: v for n, v in asked.headers.items() if n.lower() != "host"}
            asked.headers = {**named, "Host": f"127.0.0.1:{self.port}"}
            send_on(request, *self._forward(asked))

    def _put(self, request: BaseHTTPRequestHandler, asked: Asked, bucket: str, name: str) -> None:
        query = {"uploadType": "media", "name": unquote(name)}
        for header, value in asked.headers.items():
            if header.lower() == "x-goog-if-generation-match":
                query["ifGenerationMatch"] = value
        path = f"/upload/storage/v1/b/{bucket}/o?{urlencode(query, quote_via=quote)}"
        status, data = self._api("POST", path, asked.body)
        made = json.loads(data) if status == 200 else {}
        etag = {
            "ETag": f'"{made.get("etag", "")}"',
            "x-goog-generation": made.get("generation", ""),
        }
        reply(request, status, etag if made else {}, b"" if made else data)

    def _list(self, request: BaseHTTPRequestHandler, bucket: str, text: str) -> None:
        given = {name: values[0] for name, values in parse_qs(text).items()}
        query = {"prefix": given.get("prefix", ""), "maxResults": given.get("max-keys", "1000")}
        if "delimiter" in given:
            query["delimiter"] = given["delimiter"]
        after = given.get("start-after")
        if after is not None:
            query["startOffset"] = f"{after}\0"  # the first name behind it
        if "continuation-token" in given:
            query["pageToken"] = given["continuation-token"]
        status, data = self._api("GET", f"/storage/v1/b/{bucket}/o?{urlencode(query)}")
        if status != 200:
            reply(request, status, {}, data)
            return
        found = json.loads(data)
        more = found.get("nextPageToken")
        page = "".join(_entry(each) for each in found.get("items", ()))
        page += "".join(map(_folder, found.get("prefixes", ())))
        token = f"<NextContinuationToken>{escape(more)}</NextContinuationToken>" if more else ""
        whole = f"<ListBucketResult>{page}{token}</ListBucketResult>"
        reply(request, 200, {"content-type": "application/xml"}, whole.encode())

    def _api(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self._to, timeout=60)
        connection.request(method, path, body, {"content-type": "application/octet-stream"})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data


def _folder(prefix: str) -> str:
    return f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>"


def _entry(item: dict[str, str]) -> str:
    fields = {"Key": item["name"], "LastModified": item["updated"], "Size": item["size"]}
    fields |= {"ETag": f'"{item["etag"]}"'}
    inner = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in fields.items())
    return f"<Contents>{inner}</Contents>"
