"""Read the facts that readers left beside a table's log, and advise on the table by them."""

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import HOUR_US
from airflow_provider_segtable.planning.properties import (
    Policy,
    StatisticsSettings,
    share_of_reads,
)
from airflow_provider_segtable.planning.read_advice import Advised, AdvisedTable, advise
from airflow_provider_segtable.planning.read_summary import ReadSummary, summarized
from airflow_provider_segtable.table.chosen_files import LEAST_FILES
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.read_recorder import recorded_reads


def read_summary(ports: TableContext, state: State) -> ReadSummary:
    """Return the summary of a table's reads, in the last ``statistics.hours``.

    Raises:
        StorageError: the facts cannot be listed.
    """
    now = ports.clock.now()
    hours = StatisticsSettings.read(state.table.properties).hours
    facts = recorded_reads(ports.storage, state.table.table_id, now - int(hours * HOUR_US))
    return summarized(facts, now)


def summary_for_planning(ports: TableContext, state: State) -> ReadSummary:
    """Return the summary, which is empty without a request if reads are not recorded."""
    recorded = share_of_reads(state.table.properties)
    return read_summary(ports, state) if recorded else ReadSummary()


def advise_from_reads(ports: TableContext, uri: str) -> Advised:
    """Return the advice from a table's reads; its commands name the table ``uri``.

    Raises:
        StorageError: the facts cannot be listed.
    """
    state = ports.log.load()
    table = AdvisedTable(
        uri=uri,
        state=state,
        policy=Policy.read(state.table.properties),
        least_files=LEAST_FILES,
    )
    return advise(table, read_summary(ports, state))
