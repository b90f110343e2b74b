"""Paths that bytes name: which are taken, and which are refused by name."""

import pytest

from airflow_provider_segtable.core.errors import CorruptTable, InvalidName
from airflow_provider_segtable.core.paths import (
    LONGEST,
    adopted_path,
    data_path,
    file_path,
    inside,
    is_adopted,
    known_name,
    named_path,
    vectors_path,
)

OUTSIDE = (
    "../x.parquet",
    "../../x.parquet",
    "/etc/passwd",
    "//etc/passwd",
    "data/../x.parquet",
    "data/../../x.parquet",
    "data/a/../../../x",
    "data/./x",
    "data//x",
    "data/x/",
    "data/",
    "data",
    "x.parquet",
    "_segtable/timeline/00000000000000000000.json",
    "data/_runs/x",
    "data/.hidden",
    "data\\..\\x",
    "data/..\\x",
    "data/%2e%2e/x",
    "data/..%2fx",
    "data/x\0.parquet",
    "data/x\n",
    "data/*",
    "data/{a,b}",
    "data/[a]",
    "data/a?",
    "data/~/x",
    "data/a b",
    "data/é",
    "C:/x",
    "file:///etc/passwd",
    "s3://bucket/x",
    "DATA/x",
    "datax/y",
    "data/" + "x" * LONGEST,
)
NO_TEXT = (None, 0, ["data/x"], {"data/x": 1}, b"data/x", True)


@pytest.mark.parametrize("path", [*OUTSIDE, *(p.replace("data", "deletes") for p in OUTSIDE)])
def test_what_leads_elsewhere_is_refused(path: str) -> None:
    """Each trick is damage, the message shows the value, and no form of the check lets it pass."""
    for check in (
        lambda: data_path(path, rows=1),
        lambda: vectors_path(path),
        lambda: file_path(path),
    ):
        with pytest.raises(CorruptTable, match="nothing was read or deleted there"):
            check()


@pytest.mark.parametrize("found", NO_TEXT)
def test_what_is_no_text_is_refused(found: object) -> None:
    """JSON may hold anything where a path belongs."""
    for check in (lambda: data_path(found, rows=1), lambda: vectors_path(found)):
        with pytest.raises(CorruptTable, match="is not a file below"):
            check()


def test_files_that_writers_name_are_taken() -> None:
    """Every form of name that a version of segtable gave its files is one."""
    segment = "data/20130101T000000_20130201T000000/00001-0123456789abcdef.parquet"
    vectors = "deletes/restored-0123456789abcdef.arrow"
    assert data_path(segment, rows=1) == file_path(segment) == segment
    assert vectors_path(vectors) == file_path(vectors) == vectors


def test_each_kind_of_file_has_its_folder() -> None:
    """A vector's path is no segment's, nor the other way round."""
    with pytest.raises(CorruptTable, match="below data/"):
        data_path("deletes/x.arrow", rows=1)
    with pytest.raises(CorruptTable, match="below deletes/"):
        vectors_path("data/a/x.parquet")


@pytest.mark.parametrize(
    "path", ["part-0.parquet", "day=2026-01-05/part-0.snappy.parquet", "a/b/c_1+2.PARQUET"]
)
def test_an_adopted_file_lies_outside_of_the_folders_of_segtable(path: str) -> None:
    """Only a descriptor that marks the file as adopted may name it."""
    assert data_path(path, rows=1, adopted=True) == adopted_path(path) == named_path(path) == path
    for check in (lambda: data_path(path, rows=1), lambda: file_path(path)):
        with pytest.raises(CorruptTable, match="nothing was read or deleted there"):
            check()


@pytest.mark.parametrize(
    "path",
    [
        *(path for path in OUTSIDE if path not in {"x.parquet", "datax/y"} and path != "DATA/x"),
        *("data/x.parquet", "Data/x", "deletes/x", "dv/x", "DV", "a/_b/c", "a/.b", "a b/c", ""),
    ],
)
def test_an_adopted_file_is_never_elsewhere(path: str) -> None:
    """A forged mark leads neither out of the table nor into a folder that segtable writes."""
    assert not is_adopted(path)
    with pytest.raises(CorruptTable, match="nothing was read or deleted there"):
        data_path(path, rows=1, adopted=True)


def test_only_a_segment_without_rows_has_no_path() -> None:
    """An empty path would be the table's own folder."""
    assert data_path("", rows=0) == ""
    for check in (lambda: data_path("", rows=1), lambda: vectors_path(""), lambda: file_path("")):
        with pytest.raises(CorruptTable, match="path ''"):
            check()


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "a\0", "a" * 101, "-x", None, 3])
def test_names_are_single_parts(name: object) -> None:
    """A tag or a table's id that is more than one part is damage."""
    with pytest.raises(CorruptTable, match="cannot name a tag"):
        known_name(name, "a tag")


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/..", "a\\b", "a\0", "a\n"])
def test_adapters_refuse_what_leads_out(path: str) -> None:
    """Whatever asks for it: no object has such a path."""
    with pytest.raises(InvalidName, match="is not an object path below there"):
        inside(path, "there")
