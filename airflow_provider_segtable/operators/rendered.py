"""Base of the operators over a table: its place, masked fields, author names, links, asset events.

1. Credentials in rendered fields are masked, because Airflow stores and shows these.
2. A refused value, a missing table or a missing connection fails the task at once: a retry would
   meet the same.
3. The author name of events and locks traces them to their task.
4. A task links to its table in the store's console, and to the planner's run behind its plans.
   Airflow asks for links once, in the task's own process, when it has ended, and keeps the answers.
   It shows no link whose address is empty.

Asset events, one for each task that committed to the table, so that DAGs can wait:

5. The asset is known only when the task runs, because ``table`` may be a template; and a task that
   committed nothing emits nothing. So the outlet of an operator is an alias of its own, to which
   the task adds the table's asset (``assets.table_asset``) with its event. Airflow records it if
   the task succeeds, in the same transaction.
6. A commit that this try made itself is emitted. For a commit that it found in the log, there are
   two cases: an earlier try made it and died, or that try ended well and was cleared later. So
   Airflow is asked: the commit is emitted if no asset event since then names it. So one commit has
   one asset event.
7. The event's ``extra`` sums up the log's events (``core.log.fold``), and has the table's
   URI, the ``kind`` of work, and the operator's own counts. OpenLineage gets the same sums
   (``operators.lineage``).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowNotFoundException,
    Asset,
    AssetAlias,
    BaseOperator,
    BaseOperatorLink,
    Context,
    conf,
)

from airflow_provider_segtable.assets.table_asset import segtable_asset
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import (
    Exit,
    InvalidInput,
    NotATable,
    SegtableError,
)
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.core.time import moment
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook, mask_credentials
from airflow_provider_segtable.operators.lineage import Lineage, Written, openlineage_of
from airflow_provider_segtable.operators.metrics import send_commits

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.events import Event
    from airflow_provider_segtable.table.context import TableContext


# Author names
def author_of(context: Context) -> str:
    """Return ``host:pid dag/run/task`` of a running task."""
    from airflow_provider_segtable.table.context import this_process

    here, ti = this_process(), context.get("ti")
    return f"{here} {ti.dag_id}/{ti.run_id}/{ti.task_id}" if ti else here


# Links of a task
class SegtableTableLink(BaseOperatorLink):
    """The folder of the task's table, if its store has a console."""

    name = "Table"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002
        """Return the address; empty where none is known."""
        from airflow_provider_segtable.storage.table_paths import console_page

        task: Any = operator
        try:
            place = task.place
            return console_page(place.uri(task.table), place.storage_options)
        except (InvalidInput, AirflowNotFoundException):  # the task has failed of it
            return ""


class SegtablePlannerLink(BaseOperatorLink):
    """The run of the planner DAG that emitted the task's run; its log has the plans' reasons."""

    name = "Planner run"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:  # noqa: ARG002
        """Return the address; empty if no planner emitted the run."""
        task: Any = operator
        dag_id, _, run_id = str(task.planned_by or "").partition("/")
        if not (dag_id and run_id):
            return ""
        base = conf.get("api", "base_url", fallback="/").rstrip("/")
        return f"{base}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe=':+')}"


def run_name(context: Context) -> str:
    """Return ``DAG/RUN`` of a running task, as ``planned_by`` takes it; empty outside a run."""
    ti = context.get("ti")
    return f"{ti.dag_id}/{ti.run_id}" if ti else ""


# Operators over a table
class TableOperator(BaseOperator):
    """Work over one table, with no credentials in rendered fields; a base class.

    Args:
        table: below the connection's root, or a URI.
        segtable_conn_id: the connection.
        kwargs: of any operator: ``task_id``, ``retries`` ...
    """

    template_fields: Sequence[str] = ("table", "segtable_conn_id")
    operator_extra_links: Collection[BaseOperatorLink] = (SegtableTableLink(),)

    def __init__(
        self,
        *,
        table: str,
        segtable_conn_id: str = SegtableHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.segtable_conn_id = segtable_conn_id
        self._lineage: Lineage | None = None

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002
        """Return what the task read and wrote, for Airflow's OpenLineage listener; None: nothing.

        The listener finds this method by its name.
        """
        return None if self._lineage is None else openlineage_of(self._lineage)

    @property
    def place(self) -> Place:
        """Return the connection's settings, as they are now."""
        return SegtableHook(self.segtable_conn_id).place

    @contextmanager
    def opened(self, context: Context, work: str) -> "Iterator[TableContext]":
        """Open the table for work in this task, under the task's author name.

        Raises:
            AirflowFailException: as ``refused_at_once``, whose message names ``work``.
        """
        with (
            refused_at_once(work),
            self.place.table_ports(self.table, author=author_of(context)) as ports,
        ):
            yield ports

    def render_template_fields(self, context: Context, jinja_env: Any = None) -> None:
        """Render the fields, and mask credentials before Airflow stores them."""
        super().render_template_fields(context, jinja_env)
        for options in self.hidden_options():
            mask_credentials(options)
        if redacted(str(self.table)) != self.table:  # refused later, but stored before
            mask_credentials({"credentials": self.table})

    def hidden_options(self) -> tuple[Mapping[str, Any] | None, ...]:
        """Return the fields with values that may be credentials, by name."""
        return ()


@contextmanager
def refused_at_once(work: str) -> Iterator[None]:
    """Fail the task without a retry if a retry would meet the same error.

    Args:
        work: the work in words, for the message.

    Raises:
        AirflowFailException: a value is refused (``Exit.USAGE``), or the table or a connection does
            not exist.
    """
    try:
        yield
    except (SegtableError, AirflowNotFoundException) as error:
        if isinstance(error, SegtableError) and not _lasts(error):
            raise
        raise AirflowFailException(redacted(f"{work}: {error}")) from error


def _lasts(error: SegtableError) -> bool:
    return error.exit_code == Exit.USAGE or isinstance(error, NotATable)


NOTHING: Mapping[str, int] = {}
MOST_SKEW = timedelta(hours=1)
"""How much Airflow's clock may be behind the log's."""


# Asset events
class AssetEventOperator(TableOperator):
    """Commit to ``table``, and emit asset events of it; a base class."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alias = AssetAlias(f"segtable/{self.dag_id}/{self.task_id}", group="segtable")
        self.outlets = [*self.outlets, self.alias]

    def read_from(self, ports: "TableContext") -> tuple[str, ...]:
        """Return the paths and URIs of what the task read: its table, if not said otherwise."""
        return (ports.uri,)

    def emit(
        self,
        context: Context,
        ports: "TableContext",
        kind: str,
        *,
        made: Collection[int] = (),
        found: Collection[int] = (),
        counts: Mapping[str, int] = NOTHING,
    ) -> None:
        """Emit an asset event of the task's commits to a table of its own, if there are any.

        Args:
            context: of the task; outside a run nothing is emitted.
            ports: the table.
            kind: the work in one word.
            made: numbers of the events that this try committed.
            found: numbers of the events that it found in the log; emitted unless they were before.
            counts: more of ``extra``; they take precedence.
        """
        from airflow_provider_segtable.core.indexes.index_state import INDEXES
        from airflow_provider_segtable.core.log.events import published

        outlets = context.get("outlet_events")
        inside = f"/{INDEXES}/" in ports.uri  # no DAG waits for the table of an index
        if outlets is None or inside or not (made or found):
            return
        asset = segtable_asset(ports.uri)
        events = [*logged(ports, made), *unemitted(asset, logged(ports, found))]
        if not events:
            return
        sums, schema = published(events), ports.log.known().table.schema
        self._lineage = Lineage(
            read=self.read_from(ports),
            written=(Written(uri=ports.uri, version=str(sums.event), schema=schema, sums=sums),),
        )
        facts = {"table": ports.uri, "kind": kind, **asdict(sums), **counts}
        outlets[self.alias].add(asset, extra=plain_values(facts))
        self.log.info("asset event of %s: %s", asset.uri, counted(len(events), "commit"))
        send_commits(self.table, kind, events)


def logged(ports: "TableContext", numbers: Collection[int]) -> "list[Event]":
    """Return events, in log order, without those that expired."""
    found = (ports.log.event(n) for n in sorted(numbers))
    return [event for event in found if event is not None]


def own_events(ports: "TableContext", since: int) -> list[int]:
    """Return the numbers of the events after ``since`` whose author is this task."""
    later = logged(ports, range(since + 1, ports.log.known().n + 1))
    return [event.n for event in later if event.author == ports.author]


def unemitted(asset: Asset, events: "Sequence[Event]") -> "list[Event]":
    """Return the events that no asset event names."""
    if not events:
        return []
    known = set(emitted(asset, events[0]))
    return [event for event in events if event.n not in known]


def emitted(asset: Asset, first: "Event") -> Iterator[object]:
    """Yield the numbers of events that asset events name, from a first event on."""
    from airflow.sdk.execution_time.context import InletEventsAccessors

    since = moment(first.time) - MOST_SKEW
    for known in InletEventsAccessors([asset])[asset].after(since.isoformat()):
        numbers = (known.extra or {}).get("events")
        yield from numbers if isinstance(numbers, list) else ()


def plain_values(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts as JSON has them."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in facts.items()}
