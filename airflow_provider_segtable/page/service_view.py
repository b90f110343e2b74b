"""Services of a table: log store and its readers, publications, locks.

1. The log store is shown as the log knows it; a service that answers adds its own numbers.
2. Locks are the coordinator's view: hints. The log decides what is committed.
3. A service, a target or a coordinator that does not answer is part of the answer, not an error.
"""

from collections.abc import Mapping

from fastapi import APIRouter
from pydantic import Field

from airflow_provider_segtable.core.consumer import Consumer
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import CoordinatorUnavailable
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso
from airflow_provider_segtable.library.log_stores import log_buckets
from airflow_provider_segtable.page.answer import MOST_LISTED, Answer, Shown
from airflow_provider_segtable.page.held_locks import HeldLocks, LockReader
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.planning.properties import PublishSettings
from airflow_provider_segtable.table.kept_versions import unread_since
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.publishing.status import PublishedStatus, status_of_formats

PLACES = 100


class BucketLine(Shown):
    """A bucket of the log store."""

    bucket: int
    epoch: int
    owner: str | None
    committed: int = Field(description="offset of the first record that is not committed")
    end: int | None = Field(description="offset after the last record of the service")
    uncommitted: int | None
    lag_seconds: float | None = Field(description="age of the oldest uncommitted record")
    address: str
    trouble: str
    epochs: list[tuple[int, int]] = Field(description="(epoch, first offset), oldest first")


class ConsumerLine(Shown):
    """A reader that keeps its position."""

    name: str
    position: str
    version: int | None
    behind_events: int | None
    behind_seconds: float | None
    records_behind: int | None
    sentence: str


class LogStore(Shown):
    """The log store of a table."""

    has: bool = Field(description="whether the table ever had one")
    buckets: list[BucketLine]
    consumers: list[ConsumerLine]
    uncommitted: int | None
    trouble: str


class PublishedLine(Shown):
    """A format in which versions are published."""

    format: str
    enabled: bool
    event: int | None
    at: str | None
    address: str
    lag_events: int | None
    lag_seconds: float | None
    sentence: str
    refusal: str
    error: str


class Publications(Shown):
    """The publications of a table."""

    formats: list[PublishedLine]


class LockLine(Shown):
    """A lock, or a place in the queue for one."""

    group: str
    purpose: str
    holder: str
    state: str = Field(description="held, publishing, revoked, waiting")
    mode: str
    granularity: str
    priority: int
    yields: int
    since: str
    age_seconds: float
    intervals: list[str]
    segments: int
    places: list[str] = Field(description="locked places in words, at most 100")
    revoked_by: str | None
    progress: dict[str, str]
    waits_for: list[str] = Field(description="groups whose locks are in the way of a waiter")


class Locks(Shown):
    """The locks of a table, and the queue for them."""

    coordinator: str = Field(description="address without credentials; empty without one")
    held: list[LockLine]
    waiting: list[LockLine]
    unreadable: list[str]
    trouble: str


# The log store
def log_store_of(state: State, served: Mapping[int, Facts], trouble: str) -> list[BucketLine]:
    """Return the buckets of the log store.

    Args:
        state: the version.
        served: the facts of each bucket (``LogBucket.facts``), if services were asked.
        trouble: why none was asked.
    """
    lines = []
    for bucket in sorted({*state.log_store, *served}):
        known, facts = bucket_of(state, bucket), served.get(bucket, {})
        lines.append(
            BucketLine(
                bucket=bucket,
                epoch=known.epoch,
                owner=known.owner or None,
                committed=known.end,
                end=facts.get("end"),
                uncommitted=facts.get("uncommitted_records"),
                lag_seconds=facts.get("uncommitted_s"),
                address=facts.get("address") or "",
                trouble=facts.get("trouble") or ("" if facts else trouble),
                epochs=[(each.epoch, each.offset) for each in known.lineage.begins],
            )
        )
    return lines


def consumer_line(
    name: str, consumer: Consumer, state: State, since: Instant | None, now: Instant
) -> ConsumerLine:
    """Return a reader with its lag; ``since`` is the time of its first unread event, if any."""
    behind_s = 0.0 if since is None else max(0, now - since) / SECOND_US
    records = None
    if consumer.log:
        records = sum(
            end - start
            for bucket, mark in consumer.log.items()
            for known in (bucket_of(state, bucket),)
            for start, end in (known.lineage.span(mark.position, known.committed),)
        )
    position = f"version {consumer.version}"
    if consumer.log:
        position = f"{counted(len(consumer.log), 'bucket')} of the log store"
    behind = "up to date" if since is None else f"{behind_s:.0f} s behind"
    return ConsumerLine(
        name=name,
        position=position,
        version=consumer.version,
        behind_events=0 if since is None else max(0, state.n - consumer.version),
        behind_seconds=behind_s,
        records_behind=records,
        sentence=f"{name} has read {position}; {behind}",
    )


# Publications
def published_line(status: PublishedStatus, at: Instant | None) -> PublishedLine:
    """Return a format; ``at`` is the time of the published event, if it is known."""
    return PublishedLine(
        format=status.format,
        enabled=status.enabled,
        event=status.event,
        at=None if at is None else iso(at),
        address=status.address,
        lag_events=status.lag_events,
        lag_seconds=status.lag_seconds,
        sentence=_published_words(status),
        refusal=status.refusal,
        error=status.error,
    )


def _published_words(status: PublishedStatus) -> str:
    if status.error:
        return f"the target cannot be read: {status.error}"
    if status.refusal:
        return f"the newest version cannot be published: {status.refusal}"
    if status.event is None:
        return "nothing is published yet"
    off = "" if status.enabled else "; it is switched off"
    if status.lag_events is None:
        return f"event {status.event} is published; how far that is behind is not known{off}"
    if not status.lag_events:
        return f"event {status.event} is published, and shows the newest rows{off}"
    lag = counted(status.lag_events, "event")
    return f"event {status.event} is published, {lag} behind{off}"


# Locks
def locks_of(found: HeldLocks) -> Locks:
    """Return the locks and the queue."""
    return Locks(
        coordinator=found.coordinator,
        held=[_lock_line(each) for each in found.held[:MOST_LISTED]],
        waiting=[_lock_line(each) for each in found.waiting[:MOST_LISTED]],
        unreadable=[f"{each['name']}: {each['why']}" for each in found.unreadable[:MOST_LISTED]],
        trouble=found.trouble,
    )


def _lock_line(lock: Facts) -> LockLine:
    places = [
        f"{each['interval']} {mark}{', '.join(map(str, each['partitions'][:PLACES]))}"
        for key, mark in (("segments", ""), ("new_segments", "new "))
        for each in lock[key]
    ]
    wanted = [f"new ids of {chunk}" for chunk in lock["wants_new_in"]]
    return LockLine(
        group=lock["group"],
        purpose=lock["purpose"],
        holder=lock["holder"],
        state=lock["state"],
        mode=lock["mode"],
        granularity=lock["granularity"],
        priority=lock["priority"],
        yields=lock["yields"],
        since=lock["since"],
        age_seconds=lock["age_s"],
        intervals=lock["intervals"][:PLACES],
        segments=sum(len(each["partitions"]) for each in lock["segments"]),
        places=[*lock["intervals"], *places, *wanted][:PLACES],
        revoked_by=lock["revoked_by"],
        progress=lock["progress"],
        waits_for=lock.get("waits_for", []),
    )


# The lake's answers
def routes(lake: Lake) -> APIRouter:
    """Return the routes of log store, publications and locks."""
    router, locks = APIRouter(), LockReader()

    @router.get("/api/log_store")
    async def log_store(table: str) -> Answer[LogStore]:
        return await lake.answer(table, log_store_seen)

    @router.get("/api/published")
    async def published(table: str) -> Answer[Publications]:
        return await lake.answer(table, published_seen)

    @router.get("/api/locks")
    async def locks_(table: str) -> Answer[Locks]:
        return await lake.answer(table, locks_seen)

    def locks_seen(seen: Seen) -> Locks:
        return locks_of(locks.read(seen))

    return router


def log_store_seen(seen: Seen) -> LogStore:
    """Return the log store of a table, and the readers that keep positions."""
    state, now = seen.state, seen.ports.clock.now()
    has, served, trouble = bool(state.log_store), dict[int, Facts](), ""
    if has:
        try:
            found = log_buckets(seen.ports, state)
            served = {each.bucket: each.facts(now) for each in found}
        except CoordinatorUnavailable as error:
            trouble = seen.safe(f"its services are not known: {error}")
    buckets = log_store_of(state, served, trouble)
    waiting = [each.uncommitted for each in buckets if each.uncommitted is not None]
    return LogStore(
        has=has,
        buckets=[each.model_copy(update={"trouble": seen.safe(each.trouble)}) for each in buckets],
        consumers=[
            consumer_line(name, each, state, _unread(seen, each), now)
            for name, each in sorted(state.consumers.items())[:MOST_LISTED]
        ],
        uncommitted=sum(waiting) if waiting else None,
        trouble=trouble,
    )


def _unread(seen: Seen, consumer: Consumer) -> Instant | None:
    return unread_since(seen.ports.log, seen.state, consumer)


def published_seen(seen: Seen) -> Publications:
    """Return the publications of a table."""
    state, ports = seen.state, seen.ports
    enabled = PublishSettings.read(state.table.properties).formats
    found = status_of_formats(ports, state, enabled).values()
    lines = [
        published_line(each, None if each.event is None else _time_of(ports.log, each.event, state))
        for each in found
    ]
    return Publications(formats=[_without_secrets(each, seen) for each in lines])


def _without_secrets(line: PublishedLine, seen: Seen) -> PublishedLine:
    texts = ("address", "sentence", "refusal", "error")
    return line.model_copy(update={name: seen.safe(getattr(line, name)) for name in texts})


def _time_of(log: EventLog, n: int, state: State) -> Instant | None:
    if n == state.n:
        return state.time
    event = log.event(n)
    return None if event is None else event.time
