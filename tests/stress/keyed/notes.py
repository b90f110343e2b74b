"""Notes of workers that may be killed: one JSON object a line, of which the last may be torn."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def note(path: Path, what: Mapping[str, object]) -> None:
    """Add a note."""
    with path.open("a") as file:
        file.write(json.dumps(what) + "\n")


def noted(path: Path) -> list[dict[str, Any]]:
    """Return all notes of a file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def amount_of(path: Path) -> int:
    """Return the number of notes of a file."""
    return len(noted(path))


def notes_in(folder: Path, kind: str) -> dict[str, list[dict[str, Any]]]:
    """Return the notes of one kind by the worker who made them."""
    return {path.stem: noted(path) for path in sorted(folder.glob(f"*.{kind}"))}
