"""Results of plans: read from an application's report and from the log, told as plain values."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from airflow_provider_segtable.core.arguments import plan_id_of
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.events import PlanCompleted
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.services.compaction import Ended, PlanResult
from airflow_provider_segtable.table.context import TableContext


def parsed(results: Sequence[Mapping[str, Any]]) -> tuple[PlanResult, ...]:
    """Return results from plain values, with credentials in messages masked.

    Raises:
        InvalidInput: the values have another form, so another version wrote them.
    """
    try:
        return tuple(
            PlanResult(
                **{
                    **each,
                    "plan_id": plan_id_of(each["plan_id"]),
                    "ended": Ended(each["ended"]),
                    "message": redacted(each["message"]),
                }
            )
            for each in results
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"the application's report has an unknown form ({type(error).__name__}: {error}): "
            "install the same version of this package for the driver and for Airflow"
        ) from error


def plain(results: Sequence[PlanResult]) -> list[dict[str, Any]]:
    """Return results as plain values; sizes in bytes."""
    return [{**asdict(result), "ended": str(result.ended)} for result in results]


def logged_results(ports: TableContext, results: Sequence[PlanResult]) -> tuple[PlanResult, ...]:
    """Complete the results of a detached driver from the events that it committed."""
    log = ports.log
    plans = log.load().plans
    told: list[PlanResult] = []
    for result in results:
        known = plans.get(result.plan_id)
        event = log.event(known.last_n) if known else None
        if known is None or event is None or not isinstance(event.action, PlanCompleted):
            told.append(result)
            continue
        made = event.action.segments
        told.append(
            PlanResult(
                plan_id=result.plan_id,
                ended=Ended.COMPLETED,
                message=f"event {event.n}: {known.plan.reason}",
                segments_in=len(known.inputs),
                segments_out=len(made),
                rows=sum(segment.rows for segment in made),
                size=sum(segment.size for segment in made),
            )
        )
    return tuple(told)


def summary(results: Sequence[PlanResult]) -> dict[str, Any]:
    """Return results as plain values, for XCom; sizes in bytes."""
    return {
        "completed": sum(result.ended is Ended.COMPLETED for result in results),
        "segments_in": sum(result.segments_in for result in results),
        "segments_out": sum(result.segments_out for result in results),
        "rows": sum(result.rows for result in results),
        "bytes": sum(result.size for result in results),
        "plans": plain(results),
    }


def sentence(results: Sequence[PlanResult]) -> str:
    """Return a run of compactions in one line."""
    done = [result for result in results if result.ended is Ended.COMPLETED]
    made = summary(done)
    size, rows = describe_size(made["bytes"]), counted(made["rows"], "row")
    inputs = counted(made["segments_in"], "segment")
    what = f"{inputs} -> {made['segments_out']:,} ({rows}, {size})"
    return f"plans: {outcomes(results, what)}"


def outcomes(results: Sequence[PlanResult], done: str = "") -> str:
    """Return how many plans ended how; ``done`` says what the completed ones did."""
    counts = Counter(str(result.ended) for result in results)
    completed = counts.pop(Ended.COMPLETED, 0)
    parts = [f"{count} {ended}" for ended, count in counts.items()]
    if completed:
        parts.insert(0, f"{completed} completed: {done}" if done else f"{completed} completed")
    return "; ".join(parts) or "none"
