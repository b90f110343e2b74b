"""The contracts of ``ports.storage`` and ``ports.files``, held by real servers.

The checks are those of ``tests/contract``: one suite for every adapter.
"""

from concurrent.futures import ThreadPoolExecutor

from airflow_provider_segtable.core.errors import AlreadyExists
from airflow_provider_segtable.ports.files import DataFiles
from tests.contract.test_data_files import (
    test_a_missing_file_is_not_found,
    test_copies_between_stores,
    test_nothing_is_overwritten,
    test_nothing_is_visible_after_an_error,
    test_nothing_is_visible_without_commit,
    test_ranges_are_copied,
    test_reading_past_the_end_is_an_error,
    test_segments_are_written_and_compacted,
    test_what_is_committed_can_be_read,
)
from tests.contract.test_storage import (
    test_a_folder_that_never_was_lists_nothing,
    test_a_second_create_fails_and_changes_nothing,
    test_an_object_waits_for_what_it_names,
    test_delete_is_idempotent,
    test_exactly_one_racing_creator_wins,
    test_folders_are_named_one_level_deep,
    test_lists_are_in_order_of_the_whole_path,
    test_lists_begin_after_any_path,
    test_modified_times_are_near_now_and_ordered,
    test_paths_that_leave_the_table_are_refused,
    test_racing_writers_fill_numbers_without_gaps,
    test_replace_creates_and_overwrites,
    test_the_probe_accepts_and_leaves_nothing,
    test_what_is_not_there_is_not_found,
    test_what_was_created_is_read_everywhere,
)
from tests.stores.conftest import Place

__all__ = [
    "test_a_folder_that_never_was_lists_nothing",
    "test_a_missing_file_is_not_found",
    "test_a_second_create_fails_and_changes_nothing",
    "test_an_object_waits_for_what_it_names",
    "test_copies_between_stores",
    "test_delete_is_idempotent",
    "test_exactly_one_racing_creator_wins",
    "test_folders_are_named_one_level_deep",
    "test_lists_are_in_order_of_the_whole_path",
    "test_lists_begin_after_any_path",
    "test_modified_times_are_near_now_and_ordered",
    "test_nothing_is_overwritten",
    "test_nothing_is_visible_after_an_error",
    "test_nothing_is_visible_without_commit",
    "test_paths_that_leave_the_table_are_refused",
    "test_racing_writers_fill_numbers_without_gaps",
    "test_ranges_are_copied",
    "test_reading_past_the_end_is_an_error",
    "test_replace_creates_and_overwrites",
    "test_segments_are_written_and_compacted",
    "test_the_probe_accepts_and_leaves_nothing",
    "test_what_is_committed_can_be_read",
    "test_what_is_not_there_is_not_found",
    "test_what_was_created_is_read_everywhere",
]

PAGES = 2300
"""More objects than two pages of any of these stores."""
MEBIBYTE = 1 << 20


def test_eight_writers_put_each_of_many_objects_at_once(place: Place) -> None:
    """Of eight writers that put the same twenty names at once, each name has one winner."""
    names = [f"timeline/{n:04d}" for n in range(20)]

    def write(writer: int) -> dict[str, bytes]:
        storage, mine = place(), dict[str, bytes]()
        for name in names:
            data = f"{writer}".encode()
            try:
                storage.create(name, data)
                mine[name] = data
            except AlreadyExists:
                pass
        return mine

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(8)))
    assert sum(len(each) for each in won) == len(names)
    owners = {name: data for each in won for name, data in each.items()}
    assert {name: place().read(name) for name in names} == owners


def test_a_listing_of_more_than_two_pages_is_whole_and_in_order(place: Place) -> None:
    """Listings of 2,300 objects have no gap and no twin, and begin after any of them."""
    names = [f"t/{n:05d}" for n in range(PAGES)]
    storage = place()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: storage.replace(name, b"x"), names))
    assert [entry.path for entry in storage.list("t")] == names
    assert [entry.path for entry in storage.list("t", after="t/00049")] == names[50:]
    assert [entry.path for entry in storage.list("t", after=names[1500])] == names[1501:]


def test_a_large_object_is_written_in_parts_and_read_by_ranges(files: DataFiles) -> None:
    """A data file of 40 MiB, more than any client's part, comes back by ranges and as a copy."""
    block = bytes(range(256)) * (MEBIBYTE // 256)
    with files.create("a/large") as sink:
        for n in range(40):
            sink.write(n.to_bytes(8, "big") + block[8:])
        sink.commit()
    with files.open("a/large") as source:
        assert source.size == 40 * MEBIBYTE
        for n in (0, 7, 39):
            assert source.read_at(n * MEBIBYTE, 16) == n.to_bytes(8, "big") + block[8:16]
        assert source.read_at(5 * MEBIBYTE - 4, 8) == block[-4:] + (5).to_bytes(8, "big")[:4]
        with files.create("b/copy") as sink:
            sink.copy_from(source, 10 * MEBIBYTE, 20 * MEBIBYTE)
            sink.commit()
    with files.open("b/copy") as source:
        assert source.size == 20 * MEBIBYTE
        assert source.read_at(0, 8) == (10).to_bytes(8, "big")
