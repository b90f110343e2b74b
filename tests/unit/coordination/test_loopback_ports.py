"""Ports for servers that start a moment later."""

import socket

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import (
    FIRST,
    LOOPBACK,
    PAST,
    free_port,
    is_free,
)


def test_a_port_stays_free_until_its_server_binds_it() -> None:
    """It is none that the system gives to outgoing connections, and a server can have it."""
    port = free_port()
    assert FIRST <= port < PAST
    with socket.create_server((LOOPBACK, port)):
        assert not is_free(port)


def test_without_a_port_of_the_range_there_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a machine where every draw is taken, the system chooses."""
    module = "airflow_provider_segtable.coordination.embedded_zookeeper"
    monkeypatch.setattr(f"{module}.is_free", lambda _: False)
    with socket.create_server((LOOPBACK, free_port())):
        pass
