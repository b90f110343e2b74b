"""Writes the golden event files anew; run it only with an ADR that changes the format."""

from pathlib import Path

from airflow_provider_segtable.core.log.events import encode
from tests.unit.core.test_codec import ACTIONS, event


def main() -> None:
    """Write one golden file an event kind."""
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    for n in range(len(ACTIONS)):
        (folder / f"{n:020d}.json").write_bytes(encode(event(n)))


if __name__ == "__main__":
    main()
