"""Return the tables and plans of a run, for the mapped task that carries them out."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, Context

from airflow_provider_segtable.core.arguments import plain, shown
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.operators.fields import asked_plans, parsed_value


class SegtableWorkOperator(BaseOperator):
    """Return the work of a run of a fleet's DAG: arguments for each table.

    Returns ``[{"table": ..., "plans": [...]}, ...]``, which a mapped task takes; empty plans are
    all pending ones of a table.

    Args:
        work: the same, or its JSON text.
        kwargs: of any operator.
    """

    template_fields: Sequence[str] = ("work",)
    template_fields_renderers: ClassVar[dict[str, str]] = {"work": "json"}
    ui_color = "#eeeeee"

    def __init__(self, *, work: Sequence[Mapping[str, Any]] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.work = work

    def execute(self, context: Context) -> list[dict[str, Any]]:  # noqa: ARG002
        """Return the work, checked."""
        try:
            return [_checked(each) for each in parsed_value(self.work) or ()]
        except (InvalidInput, TypeError) as error:
            raise AirflowFailException(f"the run's conf has no work: {error}") from error


def _checked(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping) or not isinstance(given.get("table"), str):
        raise InvalidInput(f'{shown(given)} is not {{"table": ..., "plans": [...]}}')
    return {
        "table": plain("table", given["table"]),
        "plans": [*(asked_plans(given.get("plans")) or ())],
    }
