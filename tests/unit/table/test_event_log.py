"""Reading the log: by number, from checkpoints, as of a time, and while old events expire."""

import pytest

from airflow_provider_segtable.core.errors import (
    CorruptTable,
    NotATable,
    StorageError,
    VersionExpired,
)
from airflow_provider_segtable.core.log.events import Event, encode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned
from airflow_provider_segtable.core.log.families.tag_events import Tagged
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.log_paths import (
    LAST,
    checkpoint_path,
    event_path,
    expired_path,
    number,
    tag_path,
)
from airflow_provider_segtable.table.log.checkpoint import write_checkpoint
from airflow_provider_segtable.table.log.event_log import TRIES, EventLog
from airflow_provider_segtable.table.log.sidecar_files import readable
from tests.support.builders import BASE, DEFINITION, first
from tests.unit.table.made_log import SECOND, Made, Noted

ABSENT = 99


def test_names_are_numbers_of_twenty_digits() -> None:
    """Names sort as numbers do; other names have none."""
    for path in (event_path(42), checkpoint_path(42), expired_path(42)):
        assert number(path) == 42
    assert event_path(9) < event_path(10)
    for path in (LAST, tag_path("t", 42), "x/42", f"x/{'9' * 21}", f"x/{'9' * 19}x.json"):
        assert number(path) is None


def test_an_empty_place_holds_no_table() -> None:
    """The error says how to make one."""
    with pytest.raises(NotATable, match=r"memory://noted holds no segtable table"):
        EventLog(Noted()).load()


def test_a_log_without_checkpoints_is_folded_from_its_start() -> None:
    """Events are read by number up to the first absent one."""
    made = Made()
    assert made.log.load() == made.states[10]
    assert made.storage.reads() == [*range(12)]


def test_a_checkpoint_stands_for_the_events_before_it() -> None:
    """Opening reads the events after the newest checkpoint alone."""
    made = Made()
    made.checkpoints(4, 8)
    assert made.log.load() == made.states[10]
    assert made.storage.reads() == [9, 10, 11]


def test_a_cached_state_is_brought_up_to_date() -> None:
    """Loading again reads the last known event, and those after it."""
    made = Made()
    log = made.log
    log.load()
    made.put(Appended(segments=(first(11),)))
    made.storage.reads()
    assert log.load() == made.states[11]
    assert made.storage.reads() == [10, 11, 12]
    assert log.refresh(made.states[11]) == made.states[11]
    assert made.storage.reads() == [12]


def test_a_table_that_was_created_again_is_read_from_its_start() -> None:
    """Another table at the same place is not taken for what follows the cached state."""
    made = Made(2)
    log = made.log
    log.load()
    for n in range(3):
        made.storage.delete(event_path(n))
    later = [BASE + n * SECOND + 1 for n in range(3)]
    state = None
    for n, time in enumerate(later):
        action = Appended(segments=(first(n + 5),)) if n else DEFINITION
        event = Event(n=n, time=time, commit=f"d{n}", author="me", action=action)
        made.storage.create(event_path(n), encode(event))
        state = apply(state, event)
    assert log.load() == state


def test_a_table_that_was_dropped_is_gone() -> None:
    """A cached state does not outlive its table."""
    made = Made(0)
    log = made.log
    log.load()
    made.storage.delete(event_path(0))
    with pytest.raises(NotATable):
        log.load()


def test_every_version_is_found() -> None:
    """Version ``n`` is the state after event ``n``, read from the checkpoint below it."""
    made = Made()
    made.checkpoints(4, 8)
    assert [made.log.at(n) for n in range(11)] == made.states
    log = made.log
    log.load()
    made.storage.reads()
    assert log.version(6, made.states[10]) == made.states[6]
    assert made.storage.reads() == [5, 6, 7]
    assert log.version(8, made.states[10]) == made.states[8]
    assert made.storage.reads() == [9]
    assert log.at(10) == log.as_of(BASE + 10 * SECOND) == made.states[10]
    assert made.storage.reads() == [10, 11] * 2


@pytest.mark.parametrize("n", [-1, 11])
def test_versions_outside_the_log_are_refused(n: int) -> None:
    """The error says where the log ends."""
    with pytest.raises(NotATable, match=f"no event {n}: it ends with event 10"):
        Made().log.at(n)


def test_versions_that_are_not_kept_are_refused() -> None:
    """The oldest kept version and the tagged ones can be read, and the error names them."""
    made = Made(actions={3: Tagged(name="start", n=2), 9: Cleaned(retained_from=5, ids=())})
    assert made.log.at(5) == made.states[5]
    assert made.log.at(2) == made.states[2]
    with pytest.raises(VersionExpired, match=r"version 4 is no .* version 5; tagged are start \(2"):
        made.log.at(4)


def test_a_tagged_version_is_read_from_its_own_checkpoint() -> None:
    """Its events may have expired; a file that holds another version is not believed."""
    made = Made(
        actions={
            3: Tagged(name="start", n=2),
            4: Tagged(name="again", n=2),
            9: Cleaned(retained_from=5, ids=()),
        }
    )
    made.checkpoints(5, 8)
    made.storage.replace(tag_path("start", 2), write_checkpoint(made.states[1]))
    made.storage.replace(tag_path("again", 2), write_checkpoint(made.states[2]))
    made.expire(5)
    assert made.log.at(2) == made.states[2]
    made.storage.delete(tag_path("again", 2))
    with pytest.raises(CorruptTable, match="keeps version 2, but the events"):
        made.log.at(2)


def test_a_time_selects_the_last_event_up_to_it() -> None:
    """An event's own time includes it; a moment before does not."""
    made = Made()
    made.checkpoints(4, 8)
    log = made.log
    assert log.as_of(BASE) == made.states[0]
    assert log.as_of(BASE + 6 * SECOND - 1) == made.states[5]
    assert log.as_of(BASE + 6 * SECOND) == made.states[6]
    assert log.as_of(BASE + 8 * SECOND - 1) == made.states[7]
    assert log.as_of(BASE + 10 * SECOND) == log.as_of(BASE + 11 * SECOND) == made.states[10]
    made.storage.reads()
    log.as_of(BASE + 8 * SECOND)
    assert made.storage.reads()[-3:] == [8, 9, 11]  # the checkpoint's, the next, the log's end


def test_before_the_table_was_made_there_is_nothing() -> None:
    """The error names the time."""
    with pytest.raises(NotATable, match=r"did not exist at 2025-12-31T23:59:59.*created at 2026"):
        Made().log.as_of(BASE - 1)


def test_times_of_versions_that_are_not_kept_are_refused() -> None:
    """Whether or not their events are still there."""
    made = Made(actions={9: Cleaned(retained_from=5, ids=())})
    made.checkpoints(5, 8)
    for _ in range(2):
        assert made.log.as_of(BASE + 5 * SECOND) == made.states[5]
        with pytest.raises(VersionExpired, match=r"version of 2026-01-01T00:00:04\.\d*Z is no lo"):
            made.log.as_of(BASE + 5 * SECOND - 1)
        assert made.storage.reads().count(0) == 1  # it was looked for once
        if made.log.first() == 0:
            made.expire(5)


def test_the_highest_marker_says_where_the_log_begins() -> None:
    """Without a marker nothing has expired; other names do not count."""
    made = Made()
    assert made.log.first() == 0
    for n in (7, 3):
        made.storage.create(expired_path(n), b"")
    made.storage.create("_segtable/expired/note", b"")
    assert made.log.first() == 7


def test_a_state_from_before_the_expired_part_is_read_anew() -> None:
    """An absent event that expired is not taken for the end of the log."""
    made = Made()
    made.checkpoints(6)
    made.expire(6)
    log = made.log
    assert log.refresh(made.states[4]) == made.states[10]
    assert log.load() == made.states[10]


@pytest.mark.parametrize("start", [5, 6])
def test_a_state_that_the_log_goes_on_from_is_not_read_anew(start: int) -> None:
    """The events after it are all there."""
    made = Made()
    made.checkpoints(6)
    made.expire(6)
    assert made.log.refresh(made.states[start]) == made.states[10]
    assert made.storage.reads() == [*range(start + 1, 12)]


def test_events_that_expire_during_a_read_are_read_from_the_checkpoint() -> None:
    """What was read before the marker was listed is discarded."""
    made = Made()
    made.storage.before[event_path(5)] = lambda: (made.checkpoints(8), made.expire(8))[0]
    assert made.log.load() == made.states[10]
    made = Made()
    made.storage.before[event_path(5)] = lambda: (made.checkpoints(8), made.expire(8))[0]
    assert made.log.at(9) == made.states[9]


@pytest.mark.parametrize("n", [8, 9])
def test_times_are_looked_up_again_if_events_expire_meanwhile(n: int) -> None:
    """The state that was reached by then is not the one of that time."""
    made = Made()
    log = made.log
    log.load()
    made.storage.before[event_path(5)] = lambda: (made.checkpoints(8), made.expire(8))[0]
    assert log.as_of(BASE + n * SECOND) == made.states[n]


def test_without_a_readable_checkpoint_an_expired_log_is_corrupt() -> None:
    """Neither an older one nor the marker's event replaces it."""
    made = Made()
    made.checkpoints(4, 8)
    made.expire(8)
    made.storage.replace(checkpoint_path(8), b"torn")
    with pytest.raises(CorruptTable, match="begins with event 8 and no checkpoint"):
        made.log.load()


def test_a_log_that_expires_faster_than_it_is_read() -> None:
    """The reader gives up after a bounded number of tries."""
    made = Made(20)
    for turn in range(TRIES + 1):

        def go(n: int = 2 * turn + 2) -> None:
            made.checkpoints(n)
            made.expire(n)

        made.storage.before[event_path(2 * turn + 1)] = go
    with pytest.raises(CorruptTable, match=f"the log begins with event {2 * TRIES} "):
        made.log.load()


def test_the_newest_readable_checkpoint_is_used() -> None:
    """A torn one, or one that holds another version, costs time only."""
    made = Made()
    made.checkpoints(2, 4, 6, 8)
    made.storage.replace(checkpoint_path(6), b"torn")
    made.storage.replace(checkpoint_path(4), write_checkpoint(made.states[5]))
    log = made.log
    assert log.checkpoints() == [8, 6, 4, 2]
    assert [readable(log, n) for n in (2, 4, 6, 8, ABSENT)] == [True, False, False, True, False]
    log.load()
    made.storage.reads()
    assert log.version(7, made.states[10]) == made.states[7]
    assert made.storage.reads() == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("hint", [b"", b"rubbish", b"{}", b"[]", b'{"n": 99}'])
def test_a_damaged_hint_costs_time_only(hint: bytes) -> None:
    """The log is folded without it."""
    made = Made(3)
    made.checkpoints(2)
    made.storage.replace(LAST, hint)
    assert made.log.load() == made.states[3]


def test_a_checkpoint_that_cannot_be_written_is_no_failure() -> None:
    """It is a hint; the hint that names it is not written either."""
    made = Made(3)
    made.checkpoints(1)

    def full(path: str, _: bytes) -> None:
        raise StorageError(path)

    was = made.storage.read(LAST)
    made.storage.replace = full  # type: ignore[method-assign]
    made.checkpoints(2)
    assert made.log.checkpoints() == [1]
    assert made.storage.read(LAST) == was


def test_history_is_every_event_with_the_state_after_it() -> None:
    """It begins with the newest checkpoint within both bounds, which has no event."""
    made = Made()
    told = [(event and event.n, state) for event, state in made.log.history(BASE, 0)]
    assert told == [*enumerate(made.states)]
    made.checkpoints(2, 4, 6)
    for until, most, start in ((10, 4, 4), (5, 10, 4), (3, 5, 2), (10, 10, 6), (4, 3, 2)):
        history = made.log.history(BASE + until * SECOND, most)
        told = [(event and event.n, state) for event, state in history]
        assert told[0] == (None, made.states[start])
        assert told[1:] == [*enumerate(made.states)][start + 1 :]


def test_history_begins_where_the_log_does() -> None:
    """Bounds below the first event do not matter: there is nothing older to read."""
    made = Made()
    made.checkpoints(2, 4)
    made.expire(4)
    told = [(event and event.n, state.n) for event, state in made.log.history(BASE, 0)]
    assert told == [(None, 4), *((n, n) for n in range(5, 11))]
    made.storage.delete(checkpoint_path(4))
    with pytest.raises(CorruptTable, match="begins with event 4"):
        next(made.log.history(BASE, 0))


def test_history_needs_no_event_that_may_be_deleted() -> None:
    """Expired events may be there still: a checkpoint from before them is not begun with."""
    made = Made()
    made.checkpoints(2, 3, 4)
    made.storage.create(expired_path(4), b"")
    for most, start in ((4, 4), (3, 3), (2, 4)):
        _, state = next(made.log.history(BASE + 9 * SECOND, most))
        assert state == made.states[start]


def test_history_that_expires_while_it_is_read_is_a_failure() -> None:
    """The reader must not take what is left for everything."""
    made = Made()
    made.checkpoints(8)
    made.storage.before[event_path(5)] = lambda: made.expire(8)
    with pytest.raises(StorageError, match="expired while it was read"):
        list(made.log.history(BASE, 0))


def test_a_damaged_event_is_named() -> None:
    """With the place of its file."""
    made = Made(3)
    made.storage.replace(event_path(3), b"{")
    with pytest.raises(CorruptTable, match=f"memory://noted/{event_path(3)}"):
        made.log.load()


def test_a_damaged_last_event_that_a_checkpoint_stands_for_is_not_needed() -> None:
    """A log that goes on from it is opened anew, and says what a new process says."""
    made = Made()
    made.checkpoints(10)
    log = made.log
    log.load()
    made.storage.replace(event_path(10), b"torn")
    assert made.log.load() == log.load() == log.load() == made.states[10]


def test_events_under_another_number_are_refused() -> None:
    """Files of two logs were mixed."""
    made = Made(3)
    made.storage.replace(event_path(3), made.storage.read(event_path(2)))
    with pytest.raises(CorruptTable, match="holds event 2: files were mixed"):
        made.log.load()
