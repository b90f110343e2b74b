"""The transaction that applies a decision, or fails if the decision's view is outdated."""

from kazoo.client import TransactionRequest
from kazoo.protocol.serialization import Transaction

from airflow_provider_segtable.coordination.zookeeper.connection.link import MAX_REQUEST_BYTES
from airflow_provider_segtable.coordination.zookeeper.locks.acquisition import Acquisition, View
from airflow_provider_segtable.coordination.zookeeper.nodes import Nodes
from airflow_provider_segtable.coordination.zookeeper.records import encode_lock, encode_revocation
from airflow_provider_segtable.core.errors import LimitReached
from airflow_provider_segtable.core.locks import Granted, LockRequest, Revokes


def grant_of(
    multi: TransactionRequest,
    call: Acquisition,
    view: View,
    decision: Granted | Revokes,
    *,
    name: str,
) -> TransactionRequest:
    """Fill a transaction.

    Args:
        multi: an empty transaction.
        call: the call of ``acquire``.
        view: the nodes read.
        decision: the decision on the view.
        name: name of the lock node.

    Raises:
        LimitReached: if the request is too large for ZooKeeper.
    """
    nodes, request = call.nodes, call.request
    granted = decision.granted if isinstance(decision, Revokes) else decision
    if call.contests or view.meets(request):
        multi.set_data(nodes.lockbox, b"", view.lockbox_version)
    if not call.contests:
        multi.check(nodes.gate, view.gate_version)
    for key, following in granted.counters.items():
        version = view.counters[key][1] if key in view.counters else None
        _put(multi, nodes.counter(*key), following, version)
    if granted.version is not None:
        _put(multi, nodes.last_version, granted.version, view.last_version[1])
    if isinstance(decision, Revokes):
        names = {seen.lock.group: seen.name for seen in view.locks}
        for lock in decision.whom:
            if lock.revoked:
                data = encode_revocation(lock, lock.revoked)
                _revoke(multi, nodes, view, data, names[lock.group])
    multi.create(f"{nodes.locks}/{name}", encode_lock(request, granted), ephemeral=True)
    for own in view.own_nodes:
        multi.delete(f"{nodes.waiters}/{own}")
    refuse_oversize(call.asked, len(Transaction(multi.operations).serialize()))
    return multi


def _put(multi: TransactionRequest, path: str, number: int, version: int | None) -> None:
    if version is None:
        multi.create(path, str(number).encode())
    else:
        multi.set_data(path, str(number).encode(), version)


def _revoke(multi: TransactionRequest, nodes: Nodes, view: View, data: bytes, name: str) -> None:
    """Make the lock's state, unless its holder made one first or the lock has ended."""
    multi.check(f"{nodes.locks}/{name}", 0)  # else the state would outlive the lock
    if name in view.states:
        multi.set_data(f"{nodes.states}/{name}", data, view.states[name])
    else:
        multi.create(f"{nodes.states}/{name}", data)


def refuse_oversize(request: LockRequest, size: int) -> None:
    """Refuse a request so large that ZooKeeper would drop the connection.

    Raises:
        LimitReached: the request is too large; the message has the numbers.
    """
    if size > MAX_REQUEST_BYTES:
        raise LimitReached(
            f"locking {len(request.segments)} segments and {len(request.intervals)} intervals and "
            f"allocating for {len(request.allocate)} chunks takes a request of {size} bytes; "
            f"ZooKeeper accepts {MAX_REQUEST_BYTES}:  split the plan into smaller ones"
        )
