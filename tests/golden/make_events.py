"""Writes the golden event files anew; run it only with an ADR that changes the format."""

from pathlib import Path

from airflow_provider_segtable.core.log.events import encode, encode_file
from tests.unit.core.test_codec import ACTIONS, JOINT, event


def main() -> None:
    """Write one golden file an event kind, and one of several events."""
    folder = Path(__file__).parent / "events"
    folder.mkdir(exist_ok=True)
    for n in range(len(ACTIONS)):
        (folder / f"{n:020d}.json").write_bytes(encode(event(n)))
    (folder / "joined.json").write_bytes(encode_file(JOINT))


if __name__ == "__main__":
    main()
