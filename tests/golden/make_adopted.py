"""Writes the golden record of an adoption anew; run it only with an ADR that changes the format."""

from pathlib import Path

from tests.unit.table.test_adopted_files import GOLDEN, RECORD


def main() -> None:
    """Write the record."""
    Path(GOLDEN).parent.mkdir(exist_ok=True)
    Path(GOLDEN).write_bytes(RECORD.encoded())


if __name__ == "__main__":
    main()
