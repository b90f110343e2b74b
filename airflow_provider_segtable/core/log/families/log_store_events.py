"""The log store in the table's log: epochs, and the ranges of offsets that checkpoints commit.

1. ``LogEpochBegun``: a service takes buckets, with an epoch above all that they had. Nobody commits
   without having read the whole log, so from this event on every other service is fenced, even one
   that wakes up later and believes that it still owns its buckets.
2. A checkpoint is an ordinary append or upsert: its event (``Appended``) has ranges of offsets
   beside its segments, whose files have the records.
3. *Admission of an epoch*: refused if a bucket has this epoch or a higher one already. Of two
   services that begin at once, one wins; the other reads the log again.
4. *Admission of ranges*: each is of its bucket's newest epoch and begins at the committed end;
   otherwise ``Fenced`` or ``OffsetGap``. No later event can make it right, so these are errors.
5. A restore gives every bucket the committed end of the restored version, and a new epoch.

Source of the idea: Paimon's proposal of a log store, which has no epochs; Fluss's tiering commits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.event import Conflict, Stamp
from airflow_provider_segtable.core.log.event_kind import EventKind, no_interval, nothing
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import (
    BucketManifest,
    Epoch,
    LogRange,
    Offset,
)

NO_RECORDS = BucketManifest()
"""A bucket that no service has taken yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEpochBegun:
    """A service, ``owner``, has taken buckets of the log store with a new epoch."""

    buckets: tuple[int, ...]
    epoch: Epoch
    owner: str


def bucket_of(state: State, bucket: int) -> BucketManifest:
    """Return what is known of a bucket; nothing before its first epoch."""
    return state.log_store.get(bucket, NO_RECORDS)


def epoch_begun(action: object, bucket: int) -> Epoch | None:
    """Return the epoch of a bucket that an action begins; None if it begins none."""
    if isinstance(action, LogEpochBegun) and bucket in action.buckets:
        return action.epoch
    return None


def _begun(state: State, action: LogEpochBegun, _: Stamp) -> State:
    begun = {
        bucket: bucket_of(state, bucket).begun(action.epoch, action.owner)
        for bucket in action.buckets
    }
    return replace(state, log_store={**state.log_store, **begun})


def _admit(action: LogEpochBegun, state: State) -> LogEpochBegun | Conflict:
    """Return the action, or the conflict that forbids it.

    Raises:
        InvalidInput: there are no buckets, or one is named twice or negative.
    """
    named = set(action.buckets)
    if not named or len(named) < len(action.buckets) or min(named) < 0:
        raise InvalidInput(
            f"epoch {action.epoch} is to begin for buckets {list(action.buckets)}: name at least "
            "one bucket, each once, from 0 up"
        )
    for bucket in action.buckets:
        known = bucket_of(state, bucket)
        if action.epoch <= known.epoch:
            return Conflict(
                reason=f"bucket {bucket} of the log store is in epoch {known.epoch}, so epoch "
                f"{action.epoch} cannot begin: read the log again, and take a higher one"
            )
    return action


def check_ranges(ranges: Iterable[LogRange], state: State) -> None:
    """Refuse a checkpoint that does not follow the committed records.

    Raises:
        Fenced: a range is not of its bucket's newest epoch.
        OffsetGap: a range does not begin at the committed end.
    """
    for each in ranges:
        bucket_of(state, each.bucket).check(each)
        state = with_ranges(state, (each,), state.n + 1)


def with_ranges(state: State, ranges: Iterable[LogRange], n: int) -> State:
    """Return the state after event ``n`` committed ranges."""
    after = {each.bucket: bucket_of(state, each.bucket).extended(each, n) for each in ranges}
    return replace(state, log_store={**state.log_store, **after}) if after else state


def restored(
    state: State, old: Mapping[int, BucketManifest], version: int, n: int
) -> Mapping[int, BucketManifest]:
    """Return the buckets after event ``n`` restored a version, in which they were ``old``."""
    return {
        bucket: known.restored(old.get(bucket, NO_RECORDS), version, n).pruned(state.retained_from)
        for bucket, known in state.log_store.items()
    }


def ends(manifests: Mapping[int, BucketManifest], state: State) -> dict[int, Offset]:
    """Return the committed ends of all buckets that a state knows."""
    return {bucket: manifests.get(bucket, NO_RECORDS).end for bucket in state.log_store}


KINDS = (
    EventKind(
        type=LogEpochBegun,
        name="LogEpochBegun",
        apply=_begun,
        admit=_admit,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {
            "buckets": list(action.buckets),
            "epoch": action.epoch,
            "owner": action.owner,
        },
        decode=lambda body: LogEpochBegun(
            buckets=tuple(body["buckets"]), epoch=body["epoch"], owner=body["owner"]
        ),
        line=lambda action: (
            f"log store: epoch {action.epoch} of {counted(len(action.buckets), 'bucket')} begun "
            f"by {action.owner}"
        ),
    ),
)
