"""Report what a repair would lose: rows, if the log is still readable, and indexes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.indexes.index_table import folder, name_of
from airflow_provider_segtable.core.log.replacement import home
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.claims import Doubt, Reason, Recovered, united
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import ALL_TIME
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.planning.deleted_rows import deleted_in


def lost_rows(state: State, found: Recovered) -> list[Doubt]:
    """Return a doubt for each time interval that would lose visible rows."""
    before, after = state.timeline.visible_segments(), found.shown
    doubts: list[Doubt] = []
    for piece in united({s.id.interval for s in (*before, *after)}):
        was = [s for s in before if piece.encloses(s.id.interval)]
        will = [s for s in after if piece.encloses(s.id.interval)]
        fewer = round(_live(state, was) - _live(state, will))
        if fewer > 0:
            gone = {s.path for s in was} - {s.path for s in will}
            doubts.append(
                Doubt(
                    reason=Reason.ROWS_LOST,
                    interval=piece,
                    note=f"lost: {counted(fewer, 'row')} that no other file has",
                    paths=tuple(sorted(gone)),
                    rows=fewer,
                )
            )
    return doubts


def lost_indexes(ids: Sequence[str]) -> Iterator[Doubt]:
    """Yield a remark about the indexes whose requests were lost with the log; it blocks nothing."""
    names = [name_of(index) for index in ids]
    if ids:
        yield Doubt(
            reason=Reason.INDEXES,
            interval=ALL_TIME,
            note=f"indexes whose definitions were in the lost log: {', '.join(names)}; create them "
            "again: segtable index create TABLE NAME; cleaning deletes their old files",
            paths=tuple(map(folder, ids)),
            blocking=False,
        )


def _live(state: State, segments: Sequence[Segment]) -> float:
    """Return the estimated number of rows in some segments that are not deleted."""
    shown = replace(state, timeline=Timeline.empty().with_changes(add=segments))
    return sum(s.events for s in segments) - deleted_in(shown).rows_of(segments)


def fits(found: Recovered, state: State) -> bool:
    """Return whether the log's layout overrides fit the recovered segments."""
    return all(s.tombstone or home(s, state.layout) == s.id.chunk.place for s in found.shown)


def fell_across(found: Recovered, state: State) -> Iterator[Doubt]:
    """Yield a doubt if a dropped version leaves segments of another granularity."""
    torn = [s for s in found.dropped if s.id in state.timeline and s.shard.core]
    if torn and not fits(found, state):
        yield Doubt(
            reason=Reason.LAYOUT,
            interval=torn[0].id.interval,
            note=f"version {torn[0].id.version} repartitioned time, but is torn: restore its files",
            paths=tuple(segment.path for segment in torn),
        )
