"""Python in the guides that makes DAGs and tasks."""

from datetime import timedelta

import pytest
from airflow.sdk import DAG, BaseOperator, task

from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.checkpoint import SegtableCheckpointOperator
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.operators.index import SegtableIndexOperator
from airflow_provider_segtable.operators.publish import SegtablePublishOperator
from airflow_provider_segtable.operators.schedule_index import SegtableScheduleIndexOperator
from airflow_provider_segtable.sensors.index_catch_up import SegtableIndexCatchupSensor
from airflow_provider_segtable.sensors.log_store_lag import LogStoreLagSensor
from airflow_provider_segtable.sensors.published import SegtablePublishedSensor
from airflow_provider_segtable.sensors.small_segments import SegtableSmallSegmentsSensor
from tests.guides import GUIDES, blocks

WORDS = ("Operator(", "Sensor(", "Hook(", "compaction_dags(", "segtable_asset(", "commits_asset(")
NAMES = {  # of blocks that leave out their imports
    "LogStoreLagSensor": LogStoreLagSensor,
    "SegtableCheckpointOperator": SegtableCheckpointOperator,
    "SegtableCompactOperator": SegtableCompactOperator,
    "SegtableHook": SegtableHook,
    "SegtableIndexCatchupSensor": SegtableIndexCatchupSensor,
    "SegtableIndexOperator": SegtableIndexOperator,
    "SegtablePublishOperator": SegtablePublishOperator,
    "SegtablePublishedSensor": SegtablePublishedSensor,
    "SegtableScheduleIndexOperator": SegtableScheduleIndexOperator,
    "SegtableSmallSegmentsSensor": SegtableSmallSegmentsSensor,
    "task": task,
    "timedelta": timedelta,
}
SNIPPETS = [
    pytest.param(text, id=f"{guide.name}-{n}")
    for guide in sorted(GUIDES.glob("*.md"))
    for n, text in enumerate(blocks(guide.name, "python"))
    if any(word in text for word in WORDS)
]


@pytest.mark.parametrize("text", SNIPPETS)
def test_tasks_and_dags_of_the_guides_are_made_as_they_stand(text: str) -> None:
    """No argument is unknown, and templated fields are those that the operators have."""
    made: list[BaseOperator] = []
    with DAG("guide", schedule=None) as dag:
        names = dict(NAMES)
        exec(text, names)  # noqa: S102 - ours
        if "rows" in names:
            names["rows"]()  # type: ignore[operator]
        made += dag.tasks
    others = [each for each in names.values() if isinstance(each, DAG)]
    assert made or others or "compaction_dags" in text or "with DAG" in text


def test_the_guides_have_such_blocks() -> None:
    """The pattern that finds them is not out of date."""
    found = {str(each.id).rpartition("-")[0] for each in SNIPPETS}
    assert {"airflow.md", "cleaning.md", "clusters.md", "compaction.md"} <= found
    assert {"deletes.md", "loading-again.md"} <= found
