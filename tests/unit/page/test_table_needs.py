"""Who would miss a table."""

from airflow_provider_segtable.library.table import Table
from tests.support.shown_lake import ShownLake


def needs(made: ShownLake) -> list[str]:
    found = made.browser().get("/api/table", table="events").json()["data"]["needs"]
    made.clock.advance(2)  # no answer is given twice
    assert found["command"] == "segtable table drop memory://lake/events --dry-run"
    return list(found["sentences"])


def test_a_table_without_readers_says_that_others_are_not_known() -> None:
    """Nothing is promised of plain readers, whose reads are not recorded."""
    made = ShownLake("events")
    made.append("events")
    made.clock.advance(7200)
    assert needs(made) == [
        "Its log was written 2 hours ago.",
        "No consumer follows its changes.",
        "Other readers are not known: statistics.reads is off.",
    ]


def test_who_would_miss_it_is_named() -> None:
    """Consumers by their last sign of life, tags, publications."""
    made = ShownLake()
    made.create("events", {"publish.delta": "on", "statistics.reads": "sampled"})
    table = Table(made.tables["events"])
    made.append("events")
    table.tag("audit")
    table.advance_consumer("bi")
    made.clock.advance(150)
    table.advance_consumer("report")
    made.clock.advance(60)
    _, *others = needs(made)
    assert others == [
        "2 consumers of its changes: report (read 1 minute ago), bi (read 3 minutes ago).",
        "1 tag: audit.",
        "It is published as delta: readers of that are not known here.",
        "Its reads are recorded: segtable advise counts them.",
    ]
