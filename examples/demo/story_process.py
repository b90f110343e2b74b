"""The story's process: ``python -m examples.demo.story_process SETTINGS``."""

import fcntl
import json
import shutil
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_segtable.cli.display.output import Exit, exit_code, note, print_error
from airflow_provider_segtable.core.errors import InvalidInput, SegtableError
from examples.demo.demo_processes import (
    Interrupted,
    become_story,
    end_descendants,
)

MARK = ".made-by-segtable-demo"


def main(settings: str) -> int:
    """Tell the story; return the exit code with nothing left running."""
    try:
        become_story()  # first of all: what is imported below takes a second or two
        from examples.demo.story import Settings, tell

        asked = json.loads(settings)
        folder = Path(asked.pop("folder"))
        with own_folder(folder):
            tell(Settings(folder=folder, **asked))
    except SegtableError as error:
        print_error(error)
        return exit_code(error)
    except Interrupted:
        note("\n[yellow]interrupted:[/] ending what the demo has started")
        return Exit.INTERRUPTED
    except Exception:  # noqa: BLE001 - whatever it was, processes are ended and the code says so
        traceback.print_exc()
        return Exit.FAILED
    finally:
        end_descendants()
    return Exit.DONE


@contextmanager
def own_folder(folder: Path) -> Iterator[None]:
    """Give an empty folder, for this demo alone while it lasts.

    Raises:
        InvalidInput: the folder holds something that no demo made, or a demo runs in it.
    """
    mark = folder / MARK
    if folder.exists() and not mark.exists() and any(folder.iterdir()):
        raise InvalidInput(f"{folder} holds files of others: choose another --dir, or empty it")
    folder.mkdir(parents=True, exist_ok=True)
    with mark.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInput(
                f"another demo runs in {folder}: wait for it, or choose another --dir"
            ) from None
        for old in folder.iterdir():
            if old.is_dir() and not old.is_symlink():
                shutil.rmtree(old)
            elif old != mark:
                old.unlink()
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
