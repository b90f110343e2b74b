"""Run a group of kernel jobs in a task."""

import secrets
from dataclasses import replace

from airflow_provider_segtable.ports.job import Done, Job, run_one

Group = tuple[tuple[int, Job], ...]
"""Jobs with their numbers."""


def run_group(group: Group) -> list[Done]:
    """Run the jobs of a group, each with a fresh attempt id."""
    return [
        run_one(index, replace(job, attempt=secrets.token_hex(8)))  # type: ignore[type-var]
        for index, job in group
    ]
