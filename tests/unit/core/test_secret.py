"""Credentials in texts: none of ours is shown, those of others are taken out."""

import dataclasses
import json
import pickle
from typing import Any

import pytest

from airflow_provider_segtable.core.secret import (
    Secret,
    SecretOptions,
    is_secret_name,
    redacted,
)

CANARY = "canary-7f3a91"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A value that carries credentials, as ours do."""

    one: Secret
    many: SecretOptions


HOLDER = Holder(
    one=Secret(CANARY), many=SecretOptions({"account_key": CANARY, "unheard_of": CANARY})
)


@pytest.mark.parametrize(
    "show", [repr, str, "{}".format, "{!r}".format, lambda held: repr(dataclasses.asdict(held))]
)
def test_no_text_of_a_holder_shows_a_credential(show: Any) -> None:
    """Text of a holder has names and no values, those of unknown names included."""
    shown = show(HOLDER)
    assert CANARY not in shown
    assert "account_key" in shown
    assert CANARY not in f"{HOLDER.one} {HOLDER.one!r} {HOLDER.one:>20} {HOLDER.many}"


def test_a_credential_becomes_json_only_on_purpose() -> None:
    """``json`` refuses both kinds; what reveals them says so."""
    for held in (HOLDER.one, HOLDER.many):
        with pytest.raises(TypeError):
            json.dumps(held)
    assert json.dumps(dict(HOLDER.many)).count(CANARY) == 2
    assert HOLDER.one.reveal() == CANARY


def test_credentials_reach_other_processes() -> None:
    """Both kinds pickle, equal what they were, and equal plain options."""
    assert pickle.loads(pickle.dumps(HOLDER)) == HOLDER  # noqa: S301  # of our own making
    assert SecretOptions({"region": "eu"}) == {"region": "eu"}


@pytest.mark.parametrize(
    "text",
    [
        f"s3://user:{CANARY}@lake/t",
        f"s3://user:a@b{CANARY}@lake/t",
        f"zk://:{CANARY}@h:2181,i:2181/segtable failed",
        f"https://a.blob.core.windows.net/c/x?sv=1&sig={CANARY}&se=2",
        f"https://lake.s3.amazonaws.com/x?X-Amz-Credential={CANARY}%2F2026&X-Amz-Signature={CANARY}",
        f"spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net={CANARY}",
        f"--conf spark.hadoop.fs.s3a.secret.key={CANARY} --name x",
        f'{{"aws_secret_access_key": "{CANARY}", "region": "eu"}}',
        f"{{'aws_session_token': '{CANARY} {CANARY}'}}",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={CANARY};EndpointSuffix=x",
        f"Authorization: Bearer {CANARY}",
        f"authorization: AWS4-HMAC-SHA256 {CANARY}, x",
        f"sent bearer {CANARY}{CANARY} to it",
        f"password = {CANARY}",
        f'SEGTABLE_STORAGE_OPTIONS="{{\\"x\\": \\"{CANARY}\\"}}"',
    ],
)
def test_credentials_of_others_are_taken_out(text: str) -> None:
    """URIs, query strings, settings, JSON and headers lose their credentials alone."""
    shown = redacted(text)
    assert CANARY not in shown
    assert "***" in shown
    assert redacted(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "zk://h:2181,i:2181/segtable does not answer",
        "abfss://container@account.dfs.core.windows.net/t",
        "s3://lake/t/data/x.parquet is not there",
        "column 'token' is not in the table: it has n, who",
        "minor-20130101-1a2b3c4d5e6f: event 7: 12 segments of 3 MiB",
        "where n = 1 and who = 'somebody'",
    ],
)
def test_harmless_text_stays(text: str) -> None:
    """Places, plans and conditions are shown as they are."""
    assert redacted(text) == text


def test_values_are_hidden_wherever_they_are_repeated() -> None:
    """A library's error that quotes an option's value is mended by who gave the option."""
    assert HOLDER.many.hidden_in(f"bad value {CANARY!r}") == "bad value '***'"
    assert HOLDER.one.hidden_in(f"<{CANARY}>") == "<***>"
    assert SecretOptions({"token": "no"}).hidden_in("not now") == "not now"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("aws_secret_access_key", True),
        ("AWS_ACCESS_KEY_ID", True),
        ("account_key", True),
        ("azure_storage_sas_key", True),
        ("sas_token", True),
        ("spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net", True),
        ("spark.hadoop.javax.jdo.option.ConnectionPassword", True),
        ("spark.yarn.appMasterEnv.SEGTABLE_STORAGE_OPTIONS", True),
        ("spark.yarn.appMasterEnv.SEGTABLE_READER_OPTIONS", True),
        ("endpoint", False),
        ("region", False),
        ("spark.executor.memory", False),
        ("spark.sql.shuffle.partitions", False),
        ("virtual_hosted_style_request", False),
    ],
)
def test_names_say_what_is_a_credential(name: str, *, secret: bool) -> None:
    """Names of object stores, Hadoop and Spark are known."""
    assert is_secret_name(name) is secret
