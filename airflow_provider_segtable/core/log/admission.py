"""Admission: whether a change may follow the events committed since its author read the log.

The committer calls ``admit(action, state)`` with the newest state before every attempt to put the
next event. The event is put-if-absent at ``state.n + 1``, so no other event can come in between.
The result is the action to commit, amended if that resolves the conflict, or a ``Conflict`` with
the reason and the winning event.

=====================  ==================================================================
mine                   over theirs
=====================  ==================================================================
append                 never waits: if its chunk has moved to another version or its ids were
                       settled, it gets other ids, by metadata alone. Refused only if granularity
                       changed and one of its segments lies in two chunks. A checkpoint of the log
                       store fails, by an error, unless its offsets follow in the newest epoch
change                 its appends likewise; its deletions commute with every compaction, because
                       root addresses never change. Refused if one of its roots has a deletion
                       that its author had not read: it has to check for equal rows
overwrite              as a change. Refused, too, if another overwrite of the same time landed that
                       its author had not read: it has to replace that one's rows
compaction completed   commutes with appends, changes and compactions of other groups; a new
                       version carries over segments appended meanwhile
                       (``core.segments.replacement``). Refused if the plan is finished, another
                       attempt superseded mine, or an input is no longer visible
plan requested         refused if an input is not visible or claimed by a pending plan, or if
                       the plan is pending or completed already (an aborted one may come back)
plan yielded, aborted  refused if an attempt began that its author had not read
void                   drops ids that were settled meanwhile
repair                 refused if an id to remove is absent or one to add is present, or if segments
                       of a chunk would disagree about its core set: plan the repair again
cleaned                drops ids that are needed now, or gone; refused if a version was tagged
                       that its author had not read, or it would take a position from a consumer
                       whose author had not read it
swept                  drops paths that another writer swept
restored               undoes every event before it. Refused if the version is no longer kept, or a
                       repair has taken or changed one of its segments
consumer advanced      refused if the version is not kept, or another process moved the position
index requested        refused if the name is taken, or a column to index is gone
index built            refused if the index was dropped, or another attempt superseded mine
index dropped,         refused if it was dropped already, or its table is that far already
index forwarded
feeds joined           refused if some of them were joined already
log epoch begun        refused if a bucket has this epoch or a higher one
tagged                 refused if the version is no longer kept, or the name is taken
altered                refused if another alteration landed that its author had not read, a
                       pending plan sorts by a column that it renames or drops, or an index has a
                       column that it drops or widens. Everything else commutes with it: files are
                       read by the ids of their columns
dropped                always admitted; everything else is refused after it
=====================  ==================================================================

Each family decides for its own events (``core.log.families``); here they stand side by side.
The balance check runs here, at commit (``core.segments.balance``).
"""

from typing import assert_never

from airflow_provider_segtable.core.log.conflict import Conflict
from airflow_provider_segtable.core.log.events import (
    Action,
    Appended,
    Cleaned,
    ConsumerAdvanced,
    ConsumerDropped,
    FeedsJoined,
    IndexBuilt,
    IndexDropped,
    IndexForwarded,
    IndexRequested,
    LogEpochBegun,
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
    RowsChanged,
    Swept,
    TableAltered,
    TableCreated,
    TableDropped,
    TableRepaired,
    Tagged,
    Untagged,
    VersionRestored,
    Voided,
)
from airflow_provider_segtable.core.log.families import (
    append_events,
    change_events,
    cleaning_events,
    consumer_events,
    index_events,
    log_store_events,
    plan_events,
    repair_events,
    restore_events,
    table_events,
    tag_events,
)
from airflow_provider_segtable.core.log.state import State

__all__ = ["Conflict", "admit"]


def admit(action: Action, state: State) -> Action | Conflict:  # noqa: C901, PLR0912 - one case a family
    """Return the action to commit next, or the conflict that forbids it.

    Raises:
        Fenced, OffsetGap: a checkpoint of the log store is not in the newest epoch, or not next.
        RowsOutOfBalance: if a compaction's outputs do not account for the rows of its inputs.
    """
    if state.dropped:
        return Conflict(reason="the table was dropped", winner=state.n)
    match action:
        case TableCreated() | TableAltered() | TableDropped():
            plans = (known.plan for known in state.pending_plans())
            admitted = table_events.admit(action, state.table, plans)
            return _fitting(admitted, state)
        case Appended() | Voided():
            return append_events.admit(action, state)
        case RowsChanged():
            return change_events.admit(action, state)
        case PlanRequested() | PlanInflight() | PlanCompleted() | PlanYielded() | PlanAborted():
            return plan_events.admit(action, state)
        case Cleaned() | Swept():
            return cleaning_events.admit(action, state)
        case Tagged() | Untagged():
            return tag_events.admit(action, state)
        case TableRepaired():
            return repair_events.admit(action, state)
        case VersionRestored():
            return restore_events.admit(action, state)
        case ConsumerAdvanced() | ConsumerDropped():
            return consumer_events.admit(action, state)
        case IndexRequested() | IndexBuilt() | FeedsJoined() | IndexForwarded() | IndexDropped():
            return index_events.admit(action, state)
        case LogEpochBegun():
            return log_store_events.admit(action, state)
        case _:
            assert_never(action)


def _fitting(admitted: Action | Conflict, state: State) -> Action | Conflict:
    """Return an event of the table's definition, unless an index does not fit it."""
    if not isinstance(admitted, TableAltered):
        return admitted
    new = table_events.altered(state.table, admitted, state.n + 1)
    reason = index_events.unfit(state.indexes.values(), state.table, new)
    return admitted if reason is None else Conflict(reason=reason)
