"""When the log gets its credentials from boto3, and when obstore finds its own."""

import sys
from pathlib import Path

import pytest

from airflow_provider_segtable.core.errors import DependencyMissing, InvalidName
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.storage.aws_profiles import profile_credentials

FILE = "[lake]\naws_access_key_id = lake-key\naws_secret_access_key = canary-secret\n"


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a file of profiles that nobody names yet, and no other credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "profiles"
    file.write_text(FILE)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return file


def named(monkeypatch: pytest.MonkeyPatch, file: Path, profile: str = "lake") -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", profile)


def test_a_named_profile_gives_credentials(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of the profile, asked for again and again."""
    named(monkeypatch, profiles)
    found = profile_credentials({"region": "eu-west-1"})
    assert found is not None
    given = found()
    assert (given["access_key_id"], given["secret_access_key"]) == ("lake-key", "canary-secret")


def test_obstore_finds_its_own_without_a_profile() -> None:
    """Nothing is asked of boto3 where no file, profile or container is."""
    assert profile_credentials({}) is None


@pytest.mark.parametrize("option", ["access_key_id", "skip_signature", "metadata_endpoint"])
def test_options_come_before_profiles(
    option: str, profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options that say where credentials are keep profiles out."""
    named(monkeypatch, profiles)
    assert profile_credentials({option: "x"}) is None


def test_keys_in_the_environment_come_before_profiles(
    profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with every client of AWS."""
    named(monkeypatch, profiles)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    assert profile_credentials({}) is None


def test_a_file_without_default_profile_is_left_out(
    profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that has no credentials for us keeps obstore's own ways open."""
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
    assert profile_credentials({}) is None


def test_a_profile_that_is_not_there_is_named(
    profiles: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is not opened; the message has the profile's name and no key."""
    named(monkeypatch, profiles, "sea")
    with pytest.raises(InvalidName, match="sea") as caught:
        open_storage("s3://lake/t")
    assert "canary" not in str(caught.value)


def test_a_profile_needs_boto3(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile that is named is not left out silently; files that nobody named are."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
    assert profile_credentials({}) is None
    named(monkeypatch, profiles)
    with pytest.raises(DependencyMissing, match="pip install boto3"):
        profile_credentials({})
