"""The ledger of a table whose keys move among time chunks, beside an index of records.

1. While the index is *current*, a key has one row in the whole table: that of its highest record.
2. While there is none, or it lacks anything, rows are not compared, until it is current again. What
   is found then is the highest record ever written, however long the index was missing: also if
   that deletes the key, since tombstones outlive the disaster (``retention.tombstone_hours``), so a
   compaction drops none that is the highest.
"""

from dataclasses import dataclass, replace

from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.services.indexing import COMMIT
from tests.simulation.keyed.keyed_ledger import KeyedLedger
from tests.simulation.keyed.records import KeyedModel
from tests.simulation.model import Intention, Landing, Model


@dataclass
class MovingLedger(KeyedLedger):
    """The ledger of a table whose keys move."""

    def _intention(self, commit_id: str) -> Intention:
        return Correction() if commit_id.startswith(COMMIT) else super()._intention(commit_id)

    def _move(self, event: Event) -> None:
        super()._move(event)
        state, model = self.checked, self.models[event.n]
        assert state is not None
        assert isinstance(model, KeyedModel)
        known = (each for each in state.indexes.values() if not each.definition.kind.about_files)
        settled = any(index.current for index in known)
        self.models[event.n] = replace(model, settled=settled)


class Correction:
    """A run corrects records that other records of their keys are above: no row is changed."""

    kind = "correction"

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        del landing
        return model
