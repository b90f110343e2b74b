"""The ledger of a table whose keys move among time chunks, beside an index of records.

1. While the index is *settled*, a key has one row in the whole table: that of its highest record.
   It is settled from its request on if the table is empty; else once a plan of it completes, and it
   lacks nothing.
2. It is settled no more if it is dropped or rebuilt, or lacks anything: then rows are not compared,
   until a run has settled it again. What it finds is the highest record ever written, however long
   the index was missing: also if that deletes the key, since tombstones outlive the disaster
   (``retention.tombstone_hours``), so a compaction drops none that is the highest.
"""

from dataclasses import dataclass, replace

from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.events import Event, IndexRequested, PlanCompleted
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.plans.index_plan import IndexPlan
from airflow_provider_segtable.services.indexing.settle import COMMIT
from tests.simulation.keyed.keyed_ledger import KeyedLedger
from tests.simulation.keyed.records import KeyedModel
from tests.simulation.model import Intention, Landing, Model


@dataclass
class MovingLedger(KeyedLedger):
    """The ledger of a table whose keys move; ``settled`` is the id of the settled index."""

    settled: str = ""

    def _intention(self, commit_id: str) -> Intention:
        return Correction() if commit_id.startswith(COMMIT) else super()._intention(commit_id)

    def _move(self, event: Event) -> None:
        super()._move(event)
        state, model = self.checked, self.models[event.n]
        assert state is not None
        assert isinstance(model, KeyedModel)
        about_records = (i for i in state.indexes.values() if not i.definition.kind.about_files)
        index = next(about_records, None)
        if index is None or not index.current:
            self.settled = ""
        elif _settles(event, index, state):
            self.settled = index.definition.id
        known = index is not None and index.definition.id == self.settled
        self.models[event.n] = replace(model, settled=known)


def _settles(event: Event, index: IndexState, state: State) -> bool:
    match event.action:
        case IndexRequested(index=requested):
            return requested.id == index.definition.id
        case PlanCompleted(plan_id=plan_id):
            plan = state.plans[plan_id].plan
            return isinstance(plan, IndexPlan) and plan.index == index.definition.id
        case _:
            return False


class Correction:
    """A run corrects records that other records of their keys are above: no row is changed."""

    kind = "correction"

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        del landing
        return model
