"""Which missed objectives are said: once an episode, when it has lasted."""

from airflow_provider_segtable.planning.fleet.alerts import Episode, all_said, due, episodes


def test_an_episode_is_said_once_when_it_has_lasted() -> None:
    """It keeps its beginning; others begin and end beside it."""
    first = episodes({}, {"a"}, (), 100)
    assert due(first, 50, 149) == ()
    later = episodes(first, {"a", "b"}, (), 150)
    assert later == {"a": Episode(since=100), "b": Episode(since=150)}
    assert due(later, 50, 150) == ("a",)
    said = all_said(later, ("a",))
    assert due(said, 50, 200) == ("b",)


def test_an_episode_ends_when_the_objective_is_met() -> None:
    """A later one is said again."""
    said = all_said(episodes({}, {"a"}, (), 100), ("a",))
    assert episodes(said, (), (), 200) == {}
    assert due(episodes({}, {"a"}, (), 300), 0, 300) == ("a",)


def test_a_table_that_cannot_be_read_stays_in_its_episode() -> None:
    """Nothing is known of it, so nothing begins and nothing ends."""
    known = episodes({}, {"a"}, (), 100)
    assert episodes(known, (), {"a", "b"}, 200) == known
