"""What may become an argument: text in one piece, and nothing that is read as something else."""

import pytest

from airflow_provider_segtable.core.arguments import option, plain, plan_id_of, seconds
from airflow_provider_segtable.core.errors import InvalidInput


@pytest.mark.parametrize("value", ["-x", "--all-pending", "", "a b", "'; rm -rf /", "a=b", "ä\\"])
def test_a_value_is_never_an_option(value: str) -> None:
    """Name and value are one piece, whatever the value begins with."""
    assert option("where", value) == f"--where={value}"


@pytest.mark.parametrize("value", ["a\0b", "a\nb", "\r", "\x1b[31m", "a\u2028b", "\udcff"])
def test_control_characters_are_refused_by_name(value: str) -> None:
    """A NUL would end an argument, a line break begin a line of a log."""
    with pytest.raises(InvalidInput, match=r"commit-id = .*control character.*take it out"):
        option("commit-id", value)


def test_sql_may_have_lines() -> None:
    """Line breaks and tabs are SQL's own; a NUL is not."""
    assert option("where", "n = 1\n\tand m = 2", sql=True) == "--where=n = 1\n\tand m = 2"
    with pytest.raises(InvalidInput, match="control character"):
        option("where", "n = 1\0", sql=True)


@pytest.mark.parametrize("value", [None, 1, ["a"], b"a"])
def test_what_is_no_text_is_refused(value: object) -> None:
    """A template may render to anything."""
    with pytest.raises(InvalidInput, match=r"source = .* is a \w+: give a text"):
        plain("source", value)  # type: ignore[arg-type]


def test_a_refused_value_is_shown_short_and_without_credentials() -> None:
    """What is refused may be long, or be a credential."""
    with pytest.raises(InvalidInput) as refused:
        plain("source", "s3://me:hush-hush@lake/\n" + "x" * 1000)
    assert "hush" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("value", ["minor-20130101-1a2b3c4d5e6f", "semi-major-20130101-0", "a"])
def test_plan_ids_are_taken(value: str) -> None:
    """The ids of all kinds have the form."""
    assert plan_id_of(value) == value


@pytest.mark.parametrize(
    "value", ["", "-a", "--all-pending", "a b", "a\n", "a/b", "a=b", "$(a)", "x" * 101, 1, None]
)
def test_what_is_no_plan_id_is_refused(value: object) -> None:
    """Nothing else comes near a command line."""
    with pytest.raises(InvalidInput, match="is not a plan id: ids are letters"):
        plan_id_of(value)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "60", True, None])
def test_times_to_wait_are_finite_and_not_negative(value: object) -> None:
    """A deadline that never comes, or has passed, is a mistake."""
    with pytest.raises(InvalidInput, match="wait_s = "):
        seconds("wait_s", value)  # type: ignore[arg-type]
    assert seconds("wait_s", 0) == 0.0
