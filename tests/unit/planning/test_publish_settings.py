"""The settings of publishing in a table's properties."""

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.planning.properties import PublishSettings


def test_nothing_is_published_by_default() -> None:
    """Without properties no format is on; commits would publish if one were."""
    found = PublishSettings.read({"retention.hours": "1"})
    assert (found.formats, found.after_commits) == ((), True)


@pytest.mark.parametrize("on", ["on", "true", " On"])
def test_words_switch_formats(on: str) -> None:
    """``on`` and ``true`` are the same, as are ``off`` and ``false``."""
    given = {"publish.delta": "false", "publish.iceberg": on, "publish.on_commit": "off"}
    found = PublishSettings.read(given)
    assert (found.formats, found.after_commits) == (("iceberg",), False)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("delta", "yes", "property publish.delta = 'yes' is neither on nor off"),
        ("on_commit", "", "property publish.on_commit = '' is neither on nor off"),
        ("hudi", "on", "'publish.hudi' is not a property: known are publish.delta"),
        ("iceberg_table", "a.b", "publish.iceberg_table = 'a.b' go together"),
    ],
)
def test_wrong_settings_are_refused(key: str, value: str, expected: str) -> None:
    """The message has the property, its value and what it may be."""
    with pytest.raises(InvalidInput, match=expected):
        PublishSettings.read({f"publish.{key}": value})
