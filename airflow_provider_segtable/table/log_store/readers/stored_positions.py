"""Positions of consumer groups, stored in the table's log: a group's marks are a consumer's.

1. A member stores the positions of its buckets by one event. It names the positions that it went on
   from, so a member whose bucket another one has read since is refused: ``Fenced``.
2. A mark also has an event up to which everything committed is before the position. Cleaning keeps
   what follows, for ``retention.consumer_hours`` from the first record that is not read.
"""

from collections.abc import Mapping

from airflow_provider_segtable.core.consumer import LogMark
from airflow_provider_segtable.core.errors import InvalidInput, InvalidName
from airflow_provider_segtable.core.log.events import ConsumerAdvanced
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.log_store.reading import NOTHING_READ
from airflow_provider_segtable.core.paths import is_name
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.committer import Change, commit_or_raise
from airflow_provider_segtable.table.log_store.file_reader import ranges


def stored_marks(state: State, group: str) -> Mapping[int, LogMark]:
    """Return the marks of a consumer group, by bucket; none before it has stored any.

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
    """Store positions of a consumer group, unless they are stored; return the marks.

    Args:
        ports: the table's ports; a coordinator is not needed.
        group: the group's name.
        positions: the new positions, by bucket.
        before: the marks that the positions went on from; buckets without one are left out.

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
    """Return the mark of a position: all ranges up to which event end before it."""
    bucket_now, known = bucket_of(state, bucket), before.get(bucket)
    if at.offset >= bucket_now.end:
        return LogMark(position=at, through=state.n)
    moved_on = known is not None and known.position.offset <= at.offset
    through = known.through_in(bucket_now.epoch) if known and moved_on else NOTHING_READ
    found = ranges(ports.log, state, bucket, at.offset, through)
    return LogMark(position=at, through=next((event.n - 1 for event, _ in found), through))
