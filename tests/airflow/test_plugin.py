"""The plugin's start-up check."""

import logging

import pytest

from airflow_provider_segtable.spark.driver.install_check import Installed
from airflow_provider_segtable.ui import plugin


@pytest.mark.parametrize(
    ("installed", "warns"),
    [
        (Installed(pyspark="4.3.0", client=None, importable=True), False),
        (Installed(pyspark=None, client=None, importable=False), False),
        (Installed(pyspark="4.3.0", client="4.2.0", importable=True, foreign_files=104), True),
        (Installed(pyspark="4.3.0", client="4.2.0", importable=True), True),
    ],
)
def test_a_mixed_spark_is_warned_of_when_airflow_loads_the_plugin(
    installed: Installed,
    warns: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A mixed or endangered PySpark is warned of; none at all may be on purpose."""
    monkeypatch.setattr(plugin, "look", lambda: installed)
    with caplog.at_level(logging.WARNING):
        plugin.SegtablePlugin.on_load()
    assert ("in danger" in caplog.text) is warns


def test_the_plugin_sets_no_legacy_attributes() -> None:
    """Old Flask views would stop an api-server that has no FAB provider."""
    for name in ("appbuilder_views", "appbuilder_menu_items", "flask_blueprints"):
        assert not getattr(plugin.SegtablePlugin, name, [])
