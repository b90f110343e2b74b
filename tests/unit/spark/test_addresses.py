"""The rows that Spark names, by root."""

import pytest
from pyroaring import BitMap

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.spark.driver.file_locations import place
from airflow_provider_segtable.spark.writes.dataframe_merge import rooted
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from tests.support.builders import first
from tests.unit.cli.test_lazy_facts import day, decoded, given


def test_places_decode_the_chunks_of_their_files_alone() -> None:
    """A place names the interval of its file, and a root needs no look at the table."""
    packed = read_checkpoint(write_checkpoint(given()))
    file, root = first(1, chunk=day(7)), day(9).segment(0)
    named = {place(file.path): BitMap([2, 3]), str(root): BitMap([5])}
    assert rooted(named, packed) == {file.id: BitMap([2, 3]), root: BitMap([5])}
    assert decoded(packed) == [7]


@pytest.mark.parametrize("name", ["nowhere/x.parquet", "20130101T000000_20130201T000000/x.parquet"])
def test_a_file_that_is_not_in_the_table_is_refused(name: str) -> None:
    """The error names it and the way out, whether or not its folder is an interval."""
    with pytest.raises(InvalidInput, match=f"{name} is not in the table any more: scan a newer"):
        rooted({name: BitMap([0])}, given())
