"""Where workers of a cluster look for a table."""

import pytest

from airflow_provider_segtable.spark.driver.file_locations import local_root_warning


@pytest.mark.parametrize("uri", ["/lake/trips", "file:///lake/trips"])
def test_a_local_root_on_a_cluster_is_warned_about(uri: str) -> None:
    """The line names the path and the master, and the way out."""
    told = local_root_warning(uri, "spark://head:7077") or ""
    assert told.startswith(f"{uri} is a local path and Spark runs on spark://head:7077: ")
    assert "every worker must see the table at this path" in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("uri", "master"),
    [("/lake/trips", "local[*, 4]"), ("s3://lake/trips", "yarn"), ("/lake/trips", None)],
)
def test_nothing_is_said_where_all_see_the_table(uri: str, master: str | None) -> None:
    """Neither of Spark on this machine, nor of an object store."""
    assert local_root_warning(uri, master) is None
