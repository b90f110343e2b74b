"""Options of a store from its surroundings: Hadoop's settings and the environment."""

from urllib.parse import urlsplit

import pytest

from airflow_provider_segtable.core.schemes import S3, Azure, hadoop_options

KEYS = {"fs.s3a.access.key": "key", "fs.s3a.secret.key": "secret"}
LAKE = "s3a://lake/t"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {}),
        ({"fs.s3a.access.key": "key"}, {}),
        ({"fs.s3a.endpoint": "s3.local"}, {}),
        (KEYS, {}),
        (KEYS | {"fs.s3a.session.token": "token"}, {"session_token": "token"}),
        (KEYS | {"fs.s3a.endpoint.region": "eu-west-1"}, {"region": "eu-west-1"}),
        (
            KEYS | {"fs.s3a.endpoint": "s3.local", "fs.s3a.path.style.access": "true"},
            {"endpoint": "https://s3.local", "virtual_hosted_style_request": "false"},
        ),
        (
            KEYS | {"fs.s3a.endpoint": "h:9", "fs.s3a.connection.ssl.enabled": "false"},
            {
                "endpoint": "http://h:9",
                "allow_http": "true",
                "virtual_hosted_style_request": "true",
            },
        ),
        (
            KEYS | {"fs.s3a.bucket.lake.endpoint": "http://h:9", "fs.s3a.endpoint": "http://x"},
            {
                "endpoint": "http://h:9",
                "allow_http": "true",
                "virtual_hosted_style_request": "true",
            },
        ),
        (KEYS | {"fs.s3a.bucket.other.session.token": "x"}, {}),
    ],
)
def test_hadoop_settings_are_storage_options(
    settings: dict[str, str], wanted: dict[str, str]
) -> None:
    """Both keys are needed; a bucket's own settings come first."""
    keys = {"access_key_id": "key", "secret_access_key": "secret"}
    whole = wanted | keys if KEYS.items() <= settings.items() else {}
    assert hadoop_options(LAKE, {}, settings.get) == whole


def test_given_options_come_before_hadoop_settings() -> None:
    """Options with a credential keep the settings out; others are completed."""
    keys = {"access_key_id": "key", "secret_access_key": "secret"}
    assert hadoop_options(LAKE, {"region": "eu"}, KEYS.get) == keys | {"region": "eu"}
    for given in ({"aws_secret_access_key": "x", "region": "eu"}, {"session_token": "x"}):
        assert hadoop_options(LAKE, given, KEYS.get) == given


@pytest.mark.parametrize("uri", ["/t", "s3", "gs://lake/t", "file:///t", "", "odd://[x"])
def test_other_places_have_no_hadoop_settings(uri: str) -> None:
    """Settings of S3 are of no other store, and a wrong URI is refused elsewhere."""
    assert hadoop_options(uri, {"n": "1"}, KEYS.get) == {"n": "1"}


ENVIRONMENT = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_REGION": "eu-west-1",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_ALLOW_HTTP": "",
    "AZURE_STORAGE_ACCOUNT_NAME": "me",
    "AZURE_STORAGE_SAS_TOKEN": "sas",
    "HOME": "/root",
}


def test_data_files_take_what_only_obstore_finds_in_the_environment() -> None:
    """The endpoint of S3 and the account of Azure; keys of S3 are left to pyarrow."""
    assert S3().completed({}, ENVIRONMENT) == {
        "endpoint_url": "http://127.0.0.1:9",
        "region": "eu-west-1",
    }
    assert Azure().completed({}, ENVIRONMENT) == {"account_name": "me", "sas_token": "sas"}
    place = urlsplit("s3://lake/t")
    made = S3().filesystem(place, S3().completed({}, ENVIRONMENT)).arguments
    assert (made["endpoint_override"], made["scheme"]) == ("127.0.0.1:9", "http")


def test_an_option_keeps_its_other_names_in_the_environment_out() -> None:
    """An endpoint is one thing, and so is a credential, under any of their names."""
    given = {"AWS_ENDPOINT": "http://other", "region": "us-east-1"}
    assert S3().completed(given, ENVIRONMENT) == {
        "endpoint": "http://other",
        "region": "us-east-1",
    }
    assert Azure().completed({"account_key": "k"}, ENVIRONMENT) == {
        "account_name": "me",
        "account_key": "k",
    }
