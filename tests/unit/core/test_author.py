"""Authors of events: the host, and the Airflow task that is carried out."""

import pytest

from airflow_provider_segtable.core.log.author import host_of, task_named, task_of


@pytest.mark.parametrize(
    ("author", "host", "task"),
    [
        ("host1:7 lake/manual__2026-01-01T00:00:00+00:00/compact", "host1", ("lake", "compact")),
        ("host1:7 lake/a/b/compact", "host1", ("lake", "compact")),
        ("host1:7", "host1", None),
        ("host1:7 half/known", "host1", None),
        ("somebody", "somebody", None),
        ("", "", None),
    ],
)
def test_an_author_is_a_host_and_perhaps_a_task(
    author: str, host: str, task: tuple[str, str] | None
) -> None:
    """A run's id may hold slashes."""
    found = task_named(author)
    assert host_of(author) == host
    assert (found and (found.dag_id, found.task_id)) == task
    assert task_of(author) == author.partition(" ")[2]
