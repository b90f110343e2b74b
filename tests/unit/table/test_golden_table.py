"""Tables of older versions stay readable, from their checkpoints and from their logs."""

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.log.fold import fold
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.log_paths import checkpoint_path, tag_path
from airflow_provider_segtable.data.open_files import LocalFiles
from airflow_provider_segtable.data.parquet.descriptor import check_whole, read_descriptor
from airflow_provider_segtable.data.parquet.source_file import SourceFile
from airflow_provider_segtable.data.vector_file import read_vectors
from airflow_provider_segtable.health.verify import same_state
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.golden import make_checkpoint, make_checksums, make_columns, make_keyed_columns
from tests.golden.golden_table import CARRIERS
from tests.golden.make_table import PLACE


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


@pytest.mark.parametrize("found", make_checkpoint.PLACES)
def test_checkpoints_of_older_formats_are_read(found: str) -> None:
    """The golden checkpoints hold what folding the golden events gives."""
    data = make_checkpoint.PLACES[found].read_bytes()
    assert same_state(read_checkpoint(data), make_checkpoint.golden_state())


def test_numbers_that_older_checkpoints_lack_are_unknown() -> None:
    """Of each chunk with rows, unless the newest golden checkpoint has them."""
    for name, place in make_checkpoint.PLACES.items():
        state = read_checkpoint(place.read_bytes())
        filled = [each for each in state.timeline.visible_summaries().values() if each.rows]
        assert filled
        known = [(each.least, each.most, each.time_min, each.spanned) for each in filled]
        for numbers in known:
            assert (None in numbers) == (name != make_checkpoint.NEWEST), name


def test_footers_carry_the_descriptors() -> None:
    """Each golden data file tells by itself which segment it is."""
    files = LocalFiles(PLACE)
    for segment in Table.open(str(PLACE)).state().timeline.segments():
        assert read_descriptor(files, segment.path) == replace(segment, completed=0)


def test_columns_are_known_by_the_ids_in_the_files() -> None:
    """Of a table that was altered twice: as appended under each schema, and as sorted between."""
    table = Table.open(str(make_columns.PLACE))
    log = EventLog(table.ports.storage)
    assert table.state() == log.at(table.state().n)
    rows = table.scan(columns=["airline", "carrier"]).to_arrow().to_pylist()
    found = sorted((row["airline"], row["carrier"]) for row in rows if row["carrier"])
    assert found == [("AA", 1), ("B6", 7), ("WN", 7), ("WN", 7)]
    assert len(rows) == 5
    segments = [s for s in table.state().timeline.segments() if s.path]
    assert {segment.schema for segment in segments} == {0, 1, 2}
    for segment in segments:
        assert read_descriptor(table.ports.files, segment.path) == replace(segment, completed=0)
        with table.ports.files.open(segment.path) as source:
            schema = pq.read_schema(SourceFile(source))
        ids = {int(field.metadata[b"PARQUET:field_id"]) for field in schema}
        shown = {1, 2, 3} if segment.schema else {1, 2}
        assert ids - shown == (set() if segment.traced else {2_000_000_000, 2_000_000_001})


def test_registers_are_known_by_the_ids_in_the_files() -> None:
    """Of a primary-key table that was altered twice, between records that fill each other."""
    table = Table.open(str(make_keyed_columns.PLACE))
    state = table.state()
    assert state == EventLog(table.ports.storage).at(state.n)
    rows = table.scan().to_arrow().drop_columns(["at"]).sort_by("carrier").to_pylist()
    aa = {"carrier": "AA", "seq": 6, "seen": None, "remark": "other", "note": 1, "device": None}
    ua = {"carrier": "UA", "seq": 7, "seen": 2, "remark": "first", "note": 7, "device": "x"}
    assert rows == [aa, ua]
    merged = next(s for s in state.timeline.segments() if s.path and s.rows == 2 and s.schema == 0)
    with table.ports.files.open(merged.path) as source:
        schema = pq.read_schema(SourceFile(source))
    assert {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in schema} == {
        "at": 1,
        "carrier": 2,
        "seq": 3,
        "seen": 4,
        "page": 5,
        "note": 6,
        "__segtable_op": 2_000_000_002,
        "__segtable_root_partition": 2_000_000_003,
        "__segtable_root_of_note": 2_000_000_004,
        "__segtable_root_of_seen": 2_000_000_005,
        "__segtable_at_of_note": 2_000_000_006,
    }
    later = state.table.kind.hidden
    assert {column.name: column.id for column in later if column.id > 2_000_999_999} == {
        "__segtable_root_of_note": 2_001_000_014,
        "__segtable_at_of_note": 2_001_000_015,
    }


def test_checksums_are_those_that_were_written() -> None:
    """Of a table that has them: data files, deletion vectors, checkpoint and tag."""
    table = Table.open(str(make_checksums.PLACE))
    state, storage = table.state(), table.ports.storage
    for segment in state.timeline.segments():
        assert segment.footer is not None
        check_whole(table.ports.files, segment)
    (deletion,) = (each for some in state.vectors.values() for each in some)
    assert len(deletion.checksum) == 16
    read_vectors(table.ports.files, deletion.path, deletion.checksum)
    n = state.tags["kept"]
    assert read_checkpoint(storage.read(tag_path("kept", n))).n == n
    newest = EventLog(storage).checkpoints()[0]
    found = read_checkpoint(storage.read(checkpoint_path(newest)))
    folded = fold(None, (e for e in EventLog(storage).events(0) if e.n <= newest))
    assert folded is not None
    assert same_state(found, folded)
    carriers = table.snapshot().to_arrow().column("carrier").to_pylist()
    assert carriers == ["UA", "B6", "DL", *["WN"] * 4]
