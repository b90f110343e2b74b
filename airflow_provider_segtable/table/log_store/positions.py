"""Positions of readers of the log store: where they start, store and share them, and their lag.

The start of a reader, as users give it:

1. ``earliest`` is the first record that is still present. ``latest`` is behind the last record of
   the bucket's service, or of the table if the bucket is not served.
2. A version of the table, by its number, or a time: behind the records committed by then.
3. Positions by bucket, such as those of another reader. Buckets that are left out begin at their
   earliest record. Only the service knows whether an offset beyond the committed records was ever
   written; the first read reports it.

Stored positions of a consumer group, its marks, are a consumer in the table's log:

4. A member stores the positions of its buckets by one event. The event names the positions before.
   So if another member has read a bucket since, it is refused: ``Fenced``.
5. A mark also has an event up to which everything committed is before the position. Cleaning keeps
   the later events, for ``retention.consumer_hours`` from the first unread record on.

The lag of a consumer group, or of positions:

6. Each service is asked once for the status of its buckets; one that does not answer counts as
   none. The version is read after that, so it has all records that a service reports as committed.
7. A bucket in which a group has stored no position counts from its first record on.

One member's share of the buckets of a group (``GroupShare``):

8. Members are claims of the group's own claim group, and so are the buckets that they have. All
   members compute the same assignment (``core.log_store.assignment``), without a leader.
9. ``step`` gives up the buckets that are assigned to others, and takes this member's buckets as
   they become free. A member that dies loses its claims with its session; then the others take its
   buckets.
10. A bucket that is taken begins at the group's stored position. Records that its last member
    returned without storing are read again: at least once.
11. ``store`` is fenced by the table's log (rule 4). A member that was refused gives up all its
    buckets, and takes them anew from the group's positions.
12. While the coordinator is away no bucket changes hands.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TypeAlias

from airflow_provider_segtable.core.consumer import LogMark
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CoordinationError,
    CoordinatorUnavailable,
    Fenced,
    InvalidInput,
    InvalidName,
    LockLost,
    LogStoreError,
    LogStoreUnavailable,
)
from airflow_provider_segtable.core.log.families.consumer_events import ConsumerAdvanced
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.assignment import assign
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.log_store.reading import (
    NOTHING_READ,
    BucketStatus,
    LogEnd,
    LogLag,
    Whence,
    lag_of,
)
from airflow_provider_segtable.core.paths import is_name
from airflow_provider_segtable.core.time import Instant, Time, as_instant
from airflow_provider_segtable.planning.properties import LogStoreSettings
from airflow_provider_segtable.ports.coordination import Claim, Claimed, LeaseState
from airflow_provider_segtable.ports.log_store import LogClient
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.file_reader import first_available, ranges
from airflow_provider_segtable.table.log_store.tail import Finder, own_statuses

Start: TypeAlias = Time | Mapping[int, Position]
"""``earliest``, ``latest``, the number of a version, a time, or positions by bucket."""


def buckets_of(state: State, wanted: Collection[int] | None = None) -> tuple[int, ...]:
    """Return the buckets to read: the wanted ones, or all buckets of the table.

    Raises:
        InvalidInput: the table has no such bucket.
    """
    count = LogStoreSettings.read(state.table.properties).buckets
    known = {*range(count), *state.log_store}
    chosen = known if wanted is None else set(wanted)
    if not chosen or chosen - known:
        raise InvalidInput(
            f"buckets {sorted(chosen)} are to be read, but the log store has {sorted(known)}: give "
            "some of these"
        )
    return tuple(sorted(chosen))


def start_positions(
    ports: TableContext, find: Finder, start: Start, buckets: Collection[int]
) -> dict[int, Position]:
    """Return a reader's first position in each bucket.

    Raises:
        InvalidInput: the start is not a ``Start``, or not a position of this table.
        VersionExpired, NotATable: there is no such version, or it was cleaned.
    """
    if start == Whence.EARLIEST.value:
        return {bucket: first_available(ports, bucket) for bucket in buckets}
    if start == Whence.LATEST.value:
        return {bucket: _latest(ports, find, bucket) for bucket in buckets}
    if isinstance(start, Mapping):
        state = ports.log.load()
        given = {bucket: _checked(state, bucket, at) for bucket, at in start.items()}
        left = set(buckets) - given.keys()
        return {**given, **{bucket: first_available(ports, bucket) for bucket in left}}
    old = _version(ports, start)
    return {bucket: _committed(old, bucket) for bucket in buckets}


def _version(ports: TableContext, start: Time) -> State:
    if isinstance(start, int) and not isinstance(start, bool):
        return ports.log.at(start)
    return ports.log.as_of(as_instant(start))


def _committed(state: State, bucket: int) -> Position:
    """Return the position behind a version's records, in its newest epoch."""
    known = bucket_of(state, bucket)
    return Position(epoch=known.epoch, offset=known.end)


def _latest(ports: TableContext, find: Finder, bucket: int) -> Position:
    committed = _committed(ports.log.load(), bucket)
    try:
        client = find(bucket)
        served = client.status().get(bucket) if client else None
    except LogStoreUnavailable:
        served = None
    if served is None or served.end.epoch < committed.epoch:
        return committed
    return served.end


def _checked(state: State, bucket: int, at: Position) -> Position:
    known = bucket_of(state, bucket)
    if at.epoch > known.epoch or at.epoch < 0 or at.offset < 0:
        raise InvalidInput(
            f"{at} is not a position of bucket {bucket}: its newest epoch is {known.epoch}; "
            "begin at a position that a reader returned, or at 'earliest' or 'latest'"
        )
    return at


def stored_marks(state: State, group: str) -> Mapping[int, LogMark]:
    """Return the marks of a consumer group, by bucket; empty before the first one is stored.

    Raises:
        InvalidName: the name is not a valid file name.
        InvalidInput: a consumer of this name reads windows of versions.
    """
    if not is_name(group):
        raise InvalidName(
            f"{group!r} is not a consumer group's name: use up to 100 letters, digits, '.', '_' "
            "and '-', beginning with a letter or digit"
        )
    known = state.consumers.get(group)
    if known is not None and not known.log:
        raise InvalidInput(
            f"consumer {group!r} reads windows of versions: use another name for a group that "
            "reads the log store"
        )
    return known.log if known else {}


def store_positions(
    ports: TableContext,
    group: str,
    positions: Mapping[int, Position],
    before: Mapping[int, LogMark],
) -> dict[int, LogMark]:
    """Store positions of a consumer group if they changed; return the marks.

    Args:
        ports: the table's ports; a coordinator is not needed.
        group: the group's name.
        positions: the new positions, by bucket.
        before: the marks from which the members read on; buckets without one are left out.

    Raises:
        Fenced: another member has stored a position of a bucket meanwhile.
        CommitConflict, CommitUnknown: as for any commit.
    """
    if all(b in before and before[b].position == at for b, at in positions.items()):
        return {bucket: before[bucket] for bucket in positions}
    state = ports.log.load()
    marks = {bucket: _mark(ports, state, bucket, at, before) for bucket, at in positions.items()}
    action = ConsumerAdvanced(
        name=group,
        version=state.n,
        log=marks,
        log_before={bucket: before[bucket].position for bucket in marks if bucket in before},
    )
    commit_or_raise(ports, state, Change(action=action, commit_id=ports.randomness.token()))
    return marks


def _mark(
    ports: TableContext, state: State, bucket: int, at: Position, before: Mapping[int, LogMark]
) -> LogMark:
    """Return the mark of a position, with the last event whose ranges end before it."""
    bucket_now, known = bucket_of(state, bucket), before.get(bucket)
    if at.offset >= bucket_now.end:
        return LogMark(position=at, through=state.n)
    moved_on = known is not None and known.position.offset <= at.offset
    through = known.through_in(bucket_now.epoch) if known and moved_on else NOTHING_READ
    found = ranges(ports.log, state, bucket, at.offset, through)
    return LogMark(position=at, through=next((event.n - 1 for event, _ in found), through))


def log_lag(ports: TableContext, find: Finder, reader: str | Mapping[int, Position]) -> LogLag:
    """Return the lag of a reader of a table's log store.

    Args:
        ports: the table's ports.
        find: finds the service of a bucket.
        reader: the name of a consumer group, or positions by bucket.

    Raises:
        InvalidInput: the group has not stored any position, or the table has no such bucket.
    """
    before: State | None = None
    if isinstance(reader, str):
        before = ports.log.load()
        marks = stored_marks(before, reader)
        if not marks:
            raise InvalidInput(
                f"consumer group {reader!r} has stored no position: its readers do (TableLogReader"
                ".store); or look for its name in `segtable consumers list`"
            )
        unread = [bucket for bucket in buckets_of(before) if bucket not in marks]
        at = {**marks, **{bucket: _unread(ports, bucket) for bucket in unread}}
    else:
        at = {b: LogMark(position=each, through=NOTHING_READ) for b, each in reader.items()}
    statuses = _statuses(find, at)
    state = ports.log.refresh(before) if before else ports.log.load()
    buckets_of(state, at)
    now = ports.clock.now()
    lags = {}
    for bucket, mark in sorted(at.items()):
        end = LogEnd(known=bucket_of(state, bucket), status=statuses.get(bucket))
        since = _committed_at(ports, state, bucket, end.first_unread(mark.position), mark)
        lags[bucket] = lag_of(bucket, mark.position, end, committed_at=since, now=now)
    return LogLag(buckets=lags)


def _unread(ports: TableContext, bucket: int) -> LogMark:
    return LogMark(position=first_available(ports, bucket), through=NOTHING_READ)


def _statuses(find: Finder, buckets: Collection[int]) -> dict[int, BucketStatus]:
    """Return the status of all buckets with services that answer."""
    stores: dict[int, tuple[LogClient, list[int]]] = {}
    found: dict[int, BucketStatus] = {}
    for bucket in buckets:
        with suppress(LogStoreError, CoordinationError):
            if (client := find(bucket)) is not None:
                stores.setdefault(id(client), (client, []))[1].append(bucket)
    for client, mine in stores.values():
        with suppress(LogStoreError, CoordinationError):
            found |= own_statuses(client, mine)
    return found


def _committed_at(
    ports: TableContext, state: State, bucket: int, offset: int, mark: LogMark
) -> Instant | None:
    """Return the commit time of the record at an offset; None if it is not committed."""
    is_ahead = offset >= mark.position.offset
    through = mark.through_in(bucket_of(state, bucket).epoch) if is_ahead else NOTHING_READ
    found = ranges(ports.log, state, bucket, offset, through)
    return next((event.time for event, _ in found), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """Taken buckets of a member, each with the stored position, if any, and given-up ones."""

    taken: Mapping[int, Position | None]
    left: frozenset[int]


class GroupShare:
    """A member of a consumer group; it belongs to one thread.

    Args:
        ports: the table's ports, with a coordinator.
        group: the group's name.
        buckets: all buckets that the group reads.

    Raises:
        InvalidName, InvalidInput: the group cannot have this name.
        CoordinatorUnavailable: there is none.
    """

    def __init__(self, ports: TableContext, group: str, buckets: Collection[int]) -> None:
        state = ports.log.load()
        stored_marks(state, group)
        self._ports, self._group, self._buckets = ports, group, buckets
        self._coordinator, self._table = ports.coordinator, state.table.table_id
        self._me = f"member-{ports.randomness.token()}"
        self._member: Claim | None = None
        self._claims: dict[int, Claim] = {}
        self._marks: dict[int, LogMark] = {}
        self._left: set[int] = set()

    @property
    def claim_group(self) -> str:
        """Return the name of the claims' group."""
        return f"log-consumers-{self._group}"

    def step(self) -> Moves:
        """Release foreign buckets, take assigned ones."""
        self._give_up_lost()
        taken: dict[int, Position | None] = {}
        try:
            wanted = self._wanted()
            self._give_up(self._claims.keys() - wanted)
            taken = self._take(wanted - self._claims.keys())
        except CoordinatorUnavailable:
            pass
        left, self._left = frozenset(self._left), set()
        return Moves(taken=taken, left=left)

    def store(self, positions: Mapping[int, Position]) -> None:
        """Store positions of this member's buckets.

        Raises:
            LockLost: the claim of a bucket was lost; the next step gives the bucket up.
            Fenced: another member has stored a position meanwhile.
        """
        lost = [b for b, claim in self._claims.items() if claim.state is LeaseState.LOST]
        if lost:
            raise LockLost(
                f"buckets {lost} of consumer group {self._group!r} went to other members: read on, "
                "which gives them up, and store then"
            )
        mine = {bucket: at for bucket, at in positions.items() if bucket in self._claims}
        try:
            marks = store_positions(self._ports, self._group, mine, self._marks)
        except Fenced:
            self._give_up(set(self._claims))
            raise
        self._marks |= marks

    def close(self) -> None:
        """Leave the group."""
        self._give_up(set(self._claims))
        if self._member:
            self._member.release()

    def _wanted(self) -> frozenset[int]:
        """Return the buckets that the present claims assign to this member."""
        if self._member is None or self._member.state is LeaseState.LOST:
            content = {"author": self._ports.author}
            self._member = self._claimed(self._me, content)
        claims = self._coordinator.claims(self._table, self.claim_group)
        members = {name for name in claims if not name.isdecimal()} | {self._me}
        held = {int(name): _holder(claim) for name, claim in claims.items() if name.isdecimal()}
        key = f"{self._table}/{self._group}"
        assigned = assign(key, self._buckets, members, held)
        return frozenset(bucket for bucket, name in assigned.items() if name == self._me)

    def _claimed(self, name: str, content: Mapping[str, str]) -> Claim | None:
        return self._coordinator.claim(self._table, self.claim_group, name, content)

    def _take(self, buckets: Collection[int]) -> dict[int, Position | None]:
        claims = {bucket: self._claimed(str(bucket), {"member": self._me}) for bucket in buckets}
        got = {bucket: claim for bucket, claim in claims.items() if claim is not None}
        if not got:
            return {}
        self._claims |= got
        stored = stored_marks(self._ports.log.load(), self._group)
        self._marks |= {bucket: stored[bucket] for bucket in got if bucket in stored}
        return {b: stored[b].position if b in stored else None for b in got}

    def _give_up_lost(self) -> None:
        lost = {b for b, claim in self._claims.items() if claim.state is LeaseState.LOST}
        self._give_up(lost)

    def _give_up(self, buckets: Collection[int]) -> None:
        for bucket in list(buckets):
            self._claims.pop(bucket).release()
            self._marks.pop(bucket, None)
            self._left.add(bucket)


def _holder(claim: Claimed) -> str:
    return claim.content.get("member", "")
