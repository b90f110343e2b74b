"""A table written by format 1 stays readable, from its checkpoint and from its log."""

from airflow_provider_segtable.core.invariants import violations
from airflow_provider_segtable.data.descriptor import read_descriptor
from airflow_provider_segtable.data.files import LocalFiles
from airflow_provider_segtable.table.log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.golden.make_table import CARRIERS, PLACE


def test_rows_are_read() -> None:
    """Compacted and appended rows come back in segment order, nulls included."""
    carriers = Table.open(str(PLACE)).snapshot().to_arrow().column("carrier").to_pylist()
    assert carriers == [*CARRIERS, *["WN"] * 6]


def test_checkpoint_and_log_agree() -> None:
    """Opening through the golden checkpoint gives what folding the golden events gives."""
    log = EventLog(Table.open(str(PLACE)).ports.storage)
    state = log.load()
    assert state == log.at(state.n)
    assert list(violations(state)) == []


def test_footers_carry_the_descriptors() -> None:
    """Each golden data file tells by itself which segment it is."""
    files = LocalFiles(PLACE)
    for segment in Table.open(str(PLACE)).state().timeline.segments():
        assert read_descriptor(files, segment.path) == segment
