"""Events as JSON, versioned and checksummed.

1. An event file is one JSON object with ``format`` (the number of this codec), ``checksum`` and
   the event's fields. Unknown formats and kinds are refused by name, never guessed.
2. The checksum covers everything else, the event's number included, so a torn, flipped or
   misplaced file is detected. Each field is compared with its type, too (``field_types``).
3. Encoding is canonical (sorted keys, no spaces): equal events have equal bytes.
4. Absent attributes of segments and plans are omitted, not written as null.
5. The JSON of an action is that of its family (``core.log.families``).
6. ``feeds`` is there if the event brings entries of indexes. A segtable that does not know it does
   not get so far: it refuses the event that requested the index.
"""

import json

from airflow_provider_segtable.core.digest import digest
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    SegtableError,
    UnsupportedFormat,
)
from airflow_provider_segtable.core.indexes.feed import decode_feeds, encode_feeds
from airflow_provider_segtable.core.log.events import KIND_OF, KINDS, Event
from airflow_provider_segtable.core.log.field_types import misfit
from airflow_provider_segtable.core.segments.segment_codec import Json
from airflow_provider_segtable.core.time.interval import iso, parse_instant

FORMAT = 1

_NAMED = {kind.name: kind for kind in KINDS}


def encode(event: Event) -> bytes:
    """Return the event's file content."""
    body: Json = {
        "format": FORMAT,
        "n": event.n,
        "time": iso(event.time),
        "commit": event.commit,
        "author": event.author,
        "kind": event.kind,
        "action": KIND_OF[type(event.action)].encode(event.action),
        **({"feeds": encode_feeds(event.feeds)} if event.feeds else {}),
    }
    return _canonical({**body, "checksum": _checksum(_canonical(body))})


def decode(data: bytes, where: str) -> Event:
    """Parse an event file.

    Args:
        data: the file's content.
        where: the file's name, for messages.

    Raises:
        UnsupportedFormat: if a newer segtable wrote the file.
        CorruptTable: if the file is torn, flipped, or no event.
    """
    try:
        body = json.loads(data)
        checksum = body.pop("checksum")
        found = body["format"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptTable(
            f"{where} is not an event ({error}): restore it or repair the log"
        ) from None
    if found != FORMAT:
        raise UnsupportedFormat(
            f"{where} has format {found}, this segtable reads {FORMAT}: upgrade segtable"
        )
    # Without the checksum, these are the bytes that the author hashed; encoding again costs more.
    if checksum != _checksum(data.replace(f'"checksum":"{checksum}",'.encode(), b"", 1)):
        raise CorruptTable(f"{where} fails its checksum: restore it or repair the log")
    kind = body.get("kind")
    if not isinstance(kind, str) or kind not in _NAMED:
        raise UnsupportedFormat(f"{where} is a {kind!r} event: upgrade segtable")
    try:
        event = _decoded(body)
    except UnsupportedFormat as error:
        raise UnsupportedFormat(f"{where}: {error}") from None
    except SegtableError as error:
        raise CorruptTable(f"{where}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise CorruptTable(
            f"{where} is not a valid {body['kind']} event ({reason}): restore it or repair the log"
        ) from None
    if wrong := misfit(event):
        raise CorruptTable(
            f"{where} is not a valid {body['kind']} event: its field {wrong} has another type: "
            "restore it or repair the log"
        )
    return event


def _decoded(body: Json) -> Event:
    return Event(
        n=body["n"],
        time=parse_instant(body["time"]),
        commit=body["commit"],
        author=body["author"],
        action=_NAMED[body["kind"]].decode(body["action"]),
        feeds=decode_feeds(body.get("feeds", ())),
    )


def _canonical(body: Json) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _checksum(canonical: bytes) -> str:
    return digest(canonical)
