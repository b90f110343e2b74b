"""What Airflow's triggerer calls when a run of a fleet has missed its deadline."""

import asyncio
from pathlib import Path
from typing import Any


async def page(folder: str, context: dict[str, Any]) -> None:
    """Leave a file that is named as the run, with its table."""
    run = context["dag_run"]
    file = Path(folder, run["dag_run_id"])
    await asyncio.to_thread(file.write_text, run["conf"]["table"])
