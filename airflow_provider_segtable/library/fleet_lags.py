"""Ask the log stores of a fleet's tables how much of them the tables lack.

1. A planner's look tells which tables have a log store (``services.fleet_run``). Only their
   services are asked, several at once: the lag of a table that nobody commits to grows, too.
2. Where ZooKeeper does not answer, or there is none, the lag is unknown: the report has no number.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.services.fleet_run import AT_ONCE, FleetRun, PortsOf, TableReport


def with_log_store_lags(run: FleetRun, ports_of: PortsOf) -> FleetRun:
    """Return a planner's run with the lag of each log store among the numbers of its table.

    Args:
        run: the run.
        ports_of: opens a table by its name, with a coordinator.
    """
    if not any(each.log_store for each in run.tables):
        return run
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tables = tuple(pool.map(partial(_with_lag, ports_of), run.tables))
    return replace(run, tables=tables)


def _with_lag(ports_of: PortsOf, report: TableReport) -> TableReport:
    if not report.log_store:
        return report
    from airflow_provider_segtable.library.log_stores import log_store_lag

    with suppress(SegtableError, OSError), ports_of(report.name) as ports:
        if ports.optional_coordinator is not None:
            lag = log_store_lag(ports, report.log_store)
            return replace(report, gauges=(*report.gauges, *lag.gauges()))
    return report
