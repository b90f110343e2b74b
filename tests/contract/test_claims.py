"""Claims of names, one suite for every coordinator."""

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, LockLost
from airflow_provider_segtable.ports.coordination import Claim, Coordinator, LeaseState
from tests.contract.worlds import PATIENCE_S, TABLE, Running, World

GROUP = "log-buckets"


def claimed(client: Coordinator, name: str = "0", **content: str) -> Claim:
    """Claim a name that is free."""
    claim = client.claim(TABLE, GROUP, name, content)
    assert claim
    return claim


def test_a_name_has_one_holder_at_a_time(world: World) -> None:
    """Others get None until it is released; then a claim with a higher number, seen by all."""
    holder, other = world.client(), world.client()
    first = claimed(holder, address="a")
    assert other.claim(TABLE, GROUP, "0", {}) is None
    assert holder.claim(TABLE, GROUP, "0", {}) is None
    first.release()
    first.release()
    assert first.state is LeaseState.LOST
    second = claimed(other, address="b")
    first.release()
    seen = holder.claims(TABLE, GROUP)
    assert second.state is LeaseState.HELD
    assert {name: (each.number, each.content) for name, each in seen.items()} == {
        "0": (second.number, {"address": "b"})
    }
    assert second.number > first.number
    assert seen["0"].since > 0


def test_tables_with_claims_are_found_together(world: World) -> None:
    """By one request for all, whatever the number of their claims; other groups do not count."""
    client = world.client()
    for table, group in (("a", GROUP), ("b", GROUP), ("c", "others")):
        assert client.claim(table, group, "0", {})
    assert client.claim("a", GROUP, "1", {})
    assert sorted(world.client().tables_with_claims(["a", "b", "c", "d"], GROUP)) == ["a", "b"]
    assert list(client.tables_with_claims([], GROUP)) == []


def test_a_claim_ends_with_its_session(world: World) -> None:
    """It is lost, can be claimed again at once, and the late holder's update says so."""
    holder, other = world.client(), world.client()
    lost, closed = claimed(holder), claimed(other, "1")
    world.expire(holder)
    again = claimed(other)
    assert again.number > lost.number
    with pytest.raises(LockLost, match="claim it again"):
        lost.update({"address": "late"})
    assert lost.state is LeaseState.LOST
    assert holder.claims(TABLE, GROUP)["0"].content == {}
    other.close()
    assert closed.state is LeaseState.LOST
    assert holder.claims(TABLE, GROUP) == {}


def test_a_waiting_reader_sees_each_change(world: World) -> None:
    """A claim, another content of it, and its end wake it; without a change it waits in vain."""
    holder, reader = world.client(), world.client()
    seen = reader.wait_claims(TABLE, GROUP, seen={}, wait_s=0)
    assert seen == {}

    def next_seen() -> Running:
        def wait() -> object:
            return reader.wait_claims(TABLE, GROUP, seen=seen, wait_s=PATIENCE_S)

        return Running(wait)

    waiting = next_seen()
    claim = claimed(holder, address="a")
    seen = waiting.result()
    waiting = next_seen()
    claim.update({"address": "b", "mode": "external"})
    before, seen = seen, waiting.result()
    assert before["0"].number == seen["0"].number == claim.number
    assert seen["0"].content == {"address": "b", "mode": "external"}
    assert reader.wait_claims(TABLE, GROUP, seen=seen, wait_s=0.01) == seen
    waiting = next_seen()
    claim.release()
    assert waiting.result() == {}


def test_tables_and_groups_do_not_meet(world: World) -> None:
    """The same name is free in another group and in another table."""
    one, other = world.client(), world.client()
    claimed(one)
    assert other.claim(TABLE, "log-services", "0", {})
    assert other.claim("another-table", GROUP, "0", {})
    assert list(one.claims(TABLE, "log-services")) == ["0"]


def test_of_rivals_one_gets_the_name(world: World) -> None:
    """Of clients that claim at one moment exactly one has the name."""
    clients = [world.client() for _ in range(4)]
    claims = [Running(lambda c=c: c.claim(TABLE, GROUP, "0", {})) for c in clients]
    assert sum(each.result() is not None for each in claims) == 1


def test_nothing_is_left_of_a_forgotten_table(world: World) -> None:
    """Its claims are gone, and their holders learn it when they use them."""
    holder, other = world.client(), world.client()
    claim = claimed(holder)
    other.forget(TABLE)
    assert not world.knows()
    with pytest.raises(LockLost):
        claim.update({})
    assert claim.state is LeaseState.LOST
    assert claimed(other).state is LeaseState.HELD


@pytest.mark.parametrize("name", ["", "a/b", "..", "."])
def test_a_name_that_is_none_is_refused(world: World, name: str) -> None:
    """The error shows the name."""
    with pytest.raises(InvalidInput, match="is not a name to claim"):
        world.client().claim(TABLE, GROUP, name, {})
