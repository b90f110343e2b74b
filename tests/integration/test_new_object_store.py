"""An object store that obstore and pyarrow reach is added by one class."""

from collections.abc import Mapping
from typing import ClassVar

import pytest

from airflow_provider_segtable.core.schemes import S3, SCHEMES
from airflow_provider_segtable.data.files.input_files import InputFile, expanded, schema_of
from airflow_provider_segtable.table.table import Table
from tests.support.s3 import LoopbackS3, s3
from tests.unit.cli.conftest import trips

__all__ = ["s3"]


class OtherStore(S3):
    """A store that speaks S3 under a scheme of its own."""

    names: ClassVar[Mapping[str, str]] = {"other": "other"}
    prefixes: ClassVar[tuple[str, ...]] = ("other_",)


def test_a_table_is_written_and_read_in_a_new_object_store(
    s3: LoopbackS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log, the data files and a user's files are found by the new scheme."""
    monkeypatch.setitem(SCHEMES, "other", OtherStore())
    rows = trips(48)
    uri = s3.uri("new-store").replace("s3://", "other://")
    options = s3.storage_options
    made = Table.create(
        uri,
        schema=rows.schema,
        time_column="at",
        zookeeper="memory://new-store",
        storage_options=options,
    )
    made.append(rows)
    opened = Table.open(uri, storage_options=options)
    assert opened.scan().to_arrow().sort_by("at").equals(rows.sort_by("at"))
    made.ports.coordinator.close()
    found = expanded(f"{uri}/data/**/*.parquet", options)
    assert found
    assert schema_of(InputFile(found[0], options=options)).names == rows.schema.names
