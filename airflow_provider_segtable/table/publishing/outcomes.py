"""Outcomes of publishing, and the status of what is published, as values."""

from dataclasses import dataclass
from typing import TypeAlias

from airflow_provider_segtable.core.time import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNow:
    """A version was put, which shows event ``event``.

    Attributes:
        format: the name of the format.
        event: the event.
        number: the number of the version in its own format.
        address: the URI that readers open.
        shown: number of files that were added, or show other rows than before.
        gone: number of files that the version no longer names.
        unregistered: why the version is not in the catalog that properties name; empty if it is,
            or none is named.
        mended: what was wrong with the published table before; empty if nothing was found to be.
    """

    format: str
    event: int
    number: int
    address: str
    shown: int
    gone: int
    unregistered: str = ""
    mended: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyPublished:
    """The newest published version shows the table as of event ``event``: nothing was put.

    If it was put for an earlier event, no later one has changed what is published.
    ``unregistered`` is as for ``PublishedNow``.
    """

    format: str
    event: int
    number: int
    address: str
    unregistered: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The format cannot show the version; ``reason`` has the way out."""

    format: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtaken:
    """Other publishers put their versions first, each time; the last one shows ``event``."""

    format: str
    event: int


PublishOutcome: TypeAlias = PublishedNow | AlreadyPublished | Refused | Overtaken


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedStatus:
    """How what is published in a format stands to the newest version.

    Attributes:
        format: the name of the format.
        enabled: whether the property is on.
        event: the event that the newest published version shows; None if there is none.
        lag_events: number of later events that change what is published; None if it is unknown.
        late_since: time of the first of them; of the published version if it is unknown.
        lag_seconds: time since then.
        address: the URI that readers open.
        refusal: why the newest version cannot be published; empty if it can.
        error: why the published table cannot be read or is not ours; empty if it can.
    """

    format: str
    enabled: bool = False
    event: int | None = None
    lag_events: int | None = None
    late_since: Instant | None = None
    lag_seconds: float | None = None
    address: str = ""
    refusal: str = ""
    error: str = ""
