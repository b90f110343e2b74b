"""Actions in the page's own process, by the library: for ``segtable ui``.

1. What ends soon is done in the lake's threads, within its time limit.
2. Plans that an action requests are carried out by one thread of their own, one action after
   another; at most ``MOST_WAITING`` wait. Their progress is that of the plans.
3. Plans are in the log. So if this process ends, or too much waits, the next worker takes them:
   ``segtable compact``, or a planner's.
"""

import logging
from collections.abc import Sequence

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.page.action_work import CompactSegments
from airflow_provider_segtable.page.actions import (
    KINDS,
    ActionRequest,
    Outcome,
    Preview,
    RunRequest,
    action_of,
    agreed,
    previewed,
)
from airflow_provider_segtable.page.answer import Unanswered
from airflow_provider_segtable.page.lake import Seen
from airflow_provider_segtable.page.rights import Viewer
from airflow_provider_segtable.page.workers import Workers
from airflow_provider_segtable.planning.engine import only_spark
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compact_table import carry_out
from airflow_provider_segtable.services.compaction import Ended
from airflow_provider_segtable.table.context import TableContext

_LOG = logging.getLogger("airflow_provider_segtable.compaction")
MOST_WAITING = 8


class ActionsHere:
    """All actions, done by this process; see the module."""

    def __init__(self) -> None:
        """Begin without any work."""
        self.work = Workers("work on plans", threads=1, most_waiting=MOST_WAITING)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all actions."""
        return tuple(KINDS)

    def preview(self, seen: Seen, request: ActionRequest) -> Preview:
        """Return what an action would do."""
        action = action_of(request)
        why = only_spark(seen.state) if isinstance(action, CompactSegments) else ""
        if why:
            raise InvalidInput(f"{seen.name} cannot be compacted in this process: {why}; use Spark")
        return previewed(seen, action)

    def run(self, seen: Seen, request: RunRequest, viewer: Viewer) -> Outcome:
        """Do it; begin to carry out the plans that it requests."""
        now = agreed(seen, action_of(request), request.seal, viewer)
        done = now.action.do(now.seen, now.pin, now.key)
        begun = self._begin(now.seen.ports, done.plans) if done.plans else ""
        return Outcome(sentence=seen.safe(f"{done.sentence}{begun}"), event=now.event)

    def _begin(self, ports: TableContext, plans: Sequence[str]) -> str:
        """Carry plans out in the background; return a sentence about it."""
        try:
            self.work.submit(lambda: _carried_out(ports, plans))
        except Unanswered:
            return " Too much waits here already: `segtable compact` carries them out."
        return " This process carries them out: see the plans for their progress."


def _carried_out(ports: TableContext, plans: Sequence[str]) -> None:
    """Carry plans out; a failure is logged, and its plan stays pending."""
    try:
        results = carry_out(ports, plans, in_process(ports.files))
    except Exception:  # noqa: BLE001 - the plans are pending, and nobody waits for this thread
        _LOG.exception("%s: %s: stopped", ports.uri, ", ".join(plans))
        return
    for result in results:
        level = logging.ERROR if result.ended is Ended.FAILED else logging.INFO
        made = counted(result.segments_out, "segment")
        _LOG.log(level, "%s: %s", result.plan_id, f"{result.ended.value} {result.message or made}")
