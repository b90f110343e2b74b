"""A change request is the same after its way through an application's arguments."""

import argparse
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    FileRows,
    Matched,
    Merge,
    Sql,
    Unmatched,
    Update,
    add_change_arguments,
    arguments_of,
    request_of,
)

texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
names = texts.filter(lambda text: not {"=", ","} & {*text})
conditions = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1).filter(
    lambda text: bool(text.strip())
)
keys = st.lists(names, max_size=3, unique=True).map(tuple)
sets = st.dictionaries(names, conditions.map(Sql), min_size=1, max_size=3)
files = st.builds(
    FileRows, path=texts, format=st.none() | texts, options=st.dictionaries(st.just("sep"), texts)
)
named: dict[str, Any] = {"commit_id": st.none() | texts, "dry_run": st.booleans()}
by_file: dict[str, Any] = {"where": st.none() | conditions, "rows": files, "on": keys}
by_condition: dict[str, Any] = {"where": conditions}
merges = st.builds(
    Merge, source=files, on=keys.filter(len), set=st.none() | sets, **named
) | st.builds(
    Merge,
    source=files,
    on=keys.filter(len),
    matched=st.sampled_from([Matched.DELETE, Matched.IGNORE]),
    unmatched=st.just(Unmatched.INSERT),
    **named,
)
requests = st.one_of(
    *(st.builds(Delete, **by, **named) for by in (by_file, by_condition)),
    *(st.builds(Update, set=sets, **by, **named) for by in (by_file, by_condition)),
    merges,
)


@given(requests)
def test_arguments_carry_a_request(request: ChangeRequest) -> None:
    """The application makes the request that its caller made, whatever the texts hold."""
    parser = argparse.ArgumentParser()
    add_change_arguments(parser)
    assert request_of(parser.parse_args(arguments_of(request))) == request
