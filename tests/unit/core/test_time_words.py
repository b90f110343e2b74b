"""Intervals in words."""

import pytest

from airflow_provider_segtable.core.time import Interval, parse_instant
from airflow_provider_segtable.core.time_words import in_words

NOW = parse_instant("2026-11-27T12:00:00Z")


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ("2026-11-10/2026-11-11", "10 Nov"),
        ("2025-11-10/2025-11-11", "10 Nov 2025"),
        ("2026-11-10/2026-11-13", "10 to 12 Nov"),
        ("2026-11-29/2026-12-03", "29 Nov to 2 Dec"),
        ("2025-11-29/2025-12-03", "29 Nov to 2 Dec 2025"),
        ("2025-12-30/2026-01-02", "30 Dec 2025 to 1 Jan"),
        ("2026-03-01/2026-04-01", "Mar 2026"),
        ("2026-03-01/2026-05-01", "Mar 2026 to Apr 2026"),
        ("2025-01-01/2026-01-01", "2025"),
        ("2024-01-01/2026-01-01", "2024 to 2025"),
        ("2026-11-10T14:00:00Z/2026-11-10T15:00:00Z", "10 Nov 14:00 to 15:00"),
        ("2026-11-10T23:00:00Z/2026-11-11T00:00:00Z", "10 Nov 23:00 to 00:00"),
        ("2026-11-10T23:00:00Z/2026-11-12T01:00:00Z", "10 Nov 23:00 to 12 Nov 01:00"),
    ],
)
def test_intervals_are_said_as_people_say_them(interval: str, words: str) -> None:
    """The present year is left out, and the last day is the last that is meant."""
    assert in_words(Interval.parse(interval), NOW) == words
