"""Sending work to tasks: how jobs are packed, and what executors need."""

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_segtable.data.jobs.minor_job import MinorJob
from airflow_provider_segtable.spark.driver.session import package_archive
from airflow_provider_segtable.spark.writes.distribution import GROUP_BYTES, packed
from tests.support.builders import first

MIB = 1024 * 1024


def job(size: int) -> MinorJob:
    return MinorJob(
        uri="/t",
        storage_options={},
        inputs=(first(0, size=size),),
        outputs=(),
        created=0,
        time_column="at",
    )


@pytest.mark.parametrize(
    ("sizes", "slots", "wanted"),
    [
        ([], 2, 0),
        ([1], 2, 1),
        ([1] * 100, 2, 2),
        ([GROUP_BYTES] * 10, 2, 11),
        ([700 * MIB, 1, 1], 2, 2),
    ],
)
def test_jobs_are_packed_into_few_groups(sizes: list[int], slots: int, wanted: int) -> None:
    """No more groups than jobs or slots need, unless a group would be too large; each job once."""
    groups = packed([job(size) for size in sizes], slots)
    assert len(groups) <= wanted
    assert len(groups) >= min(len(sizes), slots)
    assert sorted(index for group in groups for index, _ in group) == list(range(len(sizes)))


def test_the_largest_jobs_are_spread() -> None:
    """Two large jobs among small ones do not land in one task."""
    sizes = [10 * MIB, *[MIB] * 6, 10 * MIB]
    groups = packed([job(size) for size in sizes], 2)
    loads = [sum(j.inputs[0].size for _, j in group) for group in groups]
    assert loads == [13 * MIB, 13 * MIB]


def test_executors_need_the_archive_and_pyarrow_only(tmp_path: Path) -> None:
    """From the archive alone tasks import, without Spark or ZooKeeper; it is passed on as it is."""
    archive = package_archive(tmp_path)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import airflow_provider_segtable.data.jobs.minor_job as minor\n"
        "import airflow_provider_segtable.spark.tasks.writing\n"
        "from airflow_provider_segtable.spark.driver.session import package_archive\n"
        "assert str(package_archive()) == sys.argv[1]\n"
        "assert minor.__file__.startswith(sys.argv[1]), minor.__file__\n"
        "print(sorted({'pyspark', 'kazoo', 'obstore', 'airflow'} & set(sys.modules)))"
    )
    told = subprocess.run(
        [sys.executable, "-I", "-c", code, str(archive)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.stdout.strip(), told.stderr) == ("[]", "")
    assert archive.read_bytes() == package_archive(tmp_path).read_bytes()
