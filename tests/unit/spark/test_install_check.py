"""PySpark is used only where its files are its own."""

import base64
import hashlib
import importlib.metadata
import zipfile
from importlib import invalidate_caches
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from airflow_provider_segtable.core.errors import DependencyMissing
from airflow_provider_segtable.spark.driver import install_check
from airflow_provider_segtable.spark.driver.install_check import (
    AtRisk,
    Broken,
    Installed,
    check_install,
    foreign_files,
    judge,
    look,
    version_of,
    whole,
)


def written(root: Path, name: str, version: str, files: dict[str, str]) -> None:
    """Install a package as an installer would: files, and a record with their hashes."""
    info = root / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    record = []
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        record.append(f"{path},sha256={digest.rstrip('=')},{len(text)}")
    (info / "RECORD").write_text("\n".join(record) + "\n")


def lookup_in(root: Path) -> install_check.Lookup:
    """Look distributions up in one folder only."""

    def lookup(name: str) -> importlib.metadata.Distribution:
        for found in importlib.metadata.distributions(name=name, path=[str(root)]):
            return found
        raise importlib.metadata.PackageNotFoundError(name)

    return lookup


@pytest.mark.parametrize(
    ("pyspark", "client"),
    [("4.3.0", None), ("4.2.0", "4.2.0"), (None, None)],
    ids=["pyspark alone", "equal versions", "a Spark distribution's own"],
)
def test_sound_installs_pass(pyspark: str | None, client: str | None) -> None:
    """Pyspark alone, an equal pair, and an unrecorded pyspark are all sound."""
    assert judge(Installed(pyspark=pyspark, client=client, importable=True)) is None


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        (Installed(pyspark=None, client=None, importable=False), ["[spark]"]),
        (Installed(pyspark=None, client="4.2.0", importable=True), ["Connect", "4.2.0"]),
        (
            Installed(pyspark="4.3.0", client=None, importable=False),
            ["--force-reinstall", "pyspark==4.3.0"],
        ),
        (
            Installed(pyspark="4.3.0", client="4.2.0", importable=True, foreign_files=104),
            ["104 files", "4.2.0", "pip uninstall -y pyspark-client", "pyspark==4.3.0"],
        ),
        (
            Installed(pyspark="4.3.0", client=None, importable=True, version="3.5.9"),
            ["PySpark 3.5.9 is too old", "pip install 'pyspark>=4'", "spark-submit of Spark 4"],
        ),
    ],
    ids=["nothing", "client alone", "files gone", "mixed", "too old"],
)
def test_broken_installs_say_the_way_out(installed: Installed, words: list[str]) -> None:
    """Each broken install names what was found and the command that repairs it."""
    verdict = judge(installed)
    assert isinstance(verdict, Broken)
    assert all(word in verdict.why for word in words), verdict.why


def test_two_versions_with_whole_files_are_a_risk_only() -> None:
    """A differing client that has overwritten nothing yet warns, because work still succeeds."""
    verdict = judge(Installed(pyspark="4.3.0", client="4.2.0", importable=True))
    assert isinstance(verdict, AtRisk)
    assert "4.3.0" in verdict.why


def test_overwritten_and_missing_files_are_counted(tmp_path: Path) -> None:
    """Files that another installer changed or took away are found by pyspark's own record."""
    files = {"pyspark/a.py": "a = 1\n", "pyspark/b.py": "b = 1\n", "pyspark/c.py": "c = 1\n"}
    written(tmp_path, "pyspark", "4.3.0", files)
    written(tmp_path, "pyspark-client", "4.2.0", {"pyspark/a.py": "a = 2\n"})
    (tmp_path / "pyspark/b.py").unlink()

    seen = look(lookup_in(tmp_path))

    assert (seen.pyspark, seen.client, seen.foreign_files) == ("4.3.0", "4.2.0", 2)


def test_left_over_folders_are_no_package(tmp_path: Path) -> None:
    """What stays of pyspark after the client was uninstalled imports, but is not whole."""
    (tmp_path / "pyspark" / "jars").mkdir(parents=True)
    left_over = PathFinder.find_spec("pyspark", [str(tmp_path)])
    assert left_over is not None
    assert not whole(left_over)

    (tmp_path / "pyspark" / "__init__.py").touch()
    invalidate_caches()
    assert whole(PathFinder.find_spec("pyspark", [str(tmp_path)]))


def test_files_say_their_version_in_a_folder_and_in_an_archive(tmp_path: Path) -> None:
    """What ``spark-submit`` puts first on the path is an archive; unknown files say none."""
    files = {"pyspark/__init__.py": "", "pyspark/version.py": '__version__: str = "3.5.9"\n'}
    archive = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    written(tmp_path / "folder", "pyspark", "3.5.9", files)
    written(tmp_path / "other", "pyspark", "3.5.9", {"pyspark/__init__.py": ""})
    found = [
        version_of(PathFinder.find_spec("pyspark", [str(tmp_path / place)]))
        for place in ("pyspark.zip", "folder", "other", "none")
    ]
    assert found == ["3.5.9", "3.5.9", None, None]


def test_equal_versions_are_not_hashed(tmp_path: Path) -> None:
    """Where both versions are equal no file is read, so start-up stays cheap."""
    written(tmp_path, "pyspark", "4.2.0", {"pyspark/a.py": "a = 1\n"})
    written(tmp_path, "pyspark-client", "4.2.0", {"pyspark/a.py": "a = 1 # read me not\n"})

    assert look(lookup_in(tmp_path)).foreign_files == 0


def test_whole_files_are_not_foreign(tmp_path: Path) -> None:
    """A distribution whose files are as recorded has none from elsewhere."""
    written(tmp_path, "pyspark", "4.3.0", {"pyspark/a.py": "a = 1\n"})

    assert foreign_files(lookup_in(tmp_path)("pyspark")) == 0


def test_the_check_raises_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken install stops the start with a typed error; one at risk only warns."""
    mixed = Installed(pyspark="4.3.0", client="4.2.0", importable=True, foreign_files=1)
    monkeypatch.setattr(install_check, "look", lambda: mixed)
    with pytest.raises(DependencyMissing, match=r"pyspark==4\.3\.0"):
        check_install()

    risky = Installed(pyspark="4.3.0", client="4.2.0", importable=True)
    monkeypatch.setattr(install_check, "look", lambda: risky)
    with pytest.warns(RuntimeWarning, match="share one folder"):
        check_install()


def test_this_environment_is_sound() -> None:
    """What `make venv` built passes the check."""
    pytest.importorskip("pyspark")
    check_install()
