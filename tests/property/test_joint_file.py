"""Changes that share a file are the changes put one after another."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Action, decode_file, encode_file
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.tag_events import Tagged
from airflow_provider_segtable.core.log.fold import admit, fold
from airflow_provider_segtable.core.log.joint_file import (
    Stamped,
    decode_offer,
    encode_offer,
    follow,
    in_one_file,
    join_offered,
)
from airflow_provider_segtable.core.log.state import State
from tests.examples import examples
from tests.support.builders import BASE, JANUARY, created, first

ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(lambda n: Appended(segments=(first(n),)), st.integers(0, 4)),
    st.builds(
        lambda n, seen: RowsChanged(
            kind="overwrite",
            segments=(first(n),),
            seen=seen,
            overwritten=(JANUARY,),
            reason="again",
        ),
        st.integers(0, 4),
        st.integers(0, 6),
    ),
    st.builds(lambda n: Tagged(name="t", n=n), st.integers(0, 9)),
)
CHANGES = st.lists(
    st.builds(
        lambda action, commit, at: Stamped(
            action=action, commit=f"c{commit}", author="a", not_before=BASE + at
        ),
        ACTIONS,
        st.integers(0, 5),
        st.integers(0, 50),
    ),
    min_size=2,
    max_size=12,
)


def one_by_one(state: State, changes: Sequence[Stamped]) -> State:
    """Return the state after the changes that may share files, each put alone."""
    for change in changes:
        if change.commit in state.commits or isinstance(change.action, Tagged):
            continue
        admitted = admit(change.action, state)
        if not isinstance(admitted, Conflict):
            stamped = Stamped(
                action=admitted,
                commit=change.commit,
                author=change.author,
                not_before=change.not_before,
            )
            _, state = follow(state, stamped)
    return state


@given(CHANGES)
@examples(100)
def test_a_file_of_offers_is_its_changes_one_after_another(changes: list[Stamped]) -> None:
    """Through the bytes of the offer and of the file, up to the state that a reader folds."""
    state = created()
    sent = decode_offer(encode_offer(changes, state), state)
    assert [(c.action, c.commit, c.author) for c in sent] == [
        (c.action, c.commit, c.author) for c in changes
    ]
    assert all(one.not_before >= two.not_before for one, two in zip(sent, changes, strict=True))
    events, after = join_offered(state, sent, lambda: BASE)
    assert after == one_by_one(state, sent)
    if events:
        read = decode_file(encode_file(in_one_file(events)), "here")
        assert read == in_one_file(events)
        assert fold(state, read) == after
        for place in range(1, len(read)):
            within = fold(state, read[:place])
            assert within is not None
            assert within.joined == (read[0].n, read[-1].n)
            assert fold(within, read[place:]) == after
