"""A coordinator that lets somebody else act between its decision and its transaction."""

from collections.abc import Callable
from typing import Any

from airflow_provider_segtable.coordination.zookeeper.zookeeper_coordinator import (
    ZooKeeperCoordinator,
)


class Interposed(ZooKeeperCoordinator):
    """``before_send`` is called once, between the next decision and its transaction.

    ``sends`` counts transactions.
    """

    before_send: Callable[[], object] | None = None
    sends = 0

    def _send(self, *arguments: Any, **options: Any) -> Any:
        self.sends += 1
        act, self.before_send = self.before_send, None
        if act:
            act()
        return super()._send(*arguments, **options)
