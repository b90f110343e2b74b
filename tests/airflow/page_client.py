"""The page of a running Airflow, as a browser asks it: preview, confirm, run."""

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

_HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback needs no proxy
ANSWER_S = 120.0


def confirmed(url: str, table: str, action: str, **arguments: Any) -> Mapping[str, Any]:
    """Preview an action and confirm it; return the preview with the outcome in its place.

    Args:
        url: of Airflow's API server.
        table: its name in the lake.
        action: its name.
        arguments: of the action.
    """
    body = {"table": table, "action": action, "arguments": arguments}
    shown = _post(f"{url}/segtable/api/preview", body)["data"]
    return {**shown, **_post(f"{url}/segtable/api/run", {**body, "seal": shown["seal"]})}


def _post(url: str, body: Mapping[str, Any]) -> Any:
    headers = {"Content-Type": "application/json", "X-Segtable-Page": "1"}
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers, method="POST")  # noqa: S310
    with _HTTP.open(request, timeout=ANSWER_S) as answer:
        return json.loads(answer.read())
