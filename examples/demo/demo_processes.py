"""No process outlives the demo, however it ends.

1. The *keeper* is what the user started; the *story* is its child and starts everything else.
2. Both adopt orphans: what leaves its parent below them (a Spark driver whose task died, Airflow's
   workers) becomes their child, so that nothing can slip away into a session of its own.
3. When the story ends, in whatever way, the keeper kills what is left below it.
4. When the keeper dies, in whatever way, the kernel sends the story SIGTERM: it ends in order,
   and kills what is left below itself.
5. Ctrl-C (or SIGTERM, SIGHUP) asks the story to end in order; a second one kills at once.

Only descendants are ever signalled. Adoption and the kernel's message are Linux; elsewhere rule 3
holds for processes that kept their parents.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

import psutil

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PATIENCE_S = 5.0


class Interrupted(BaseException):
    """Somebody wants the story to end."""


def keep(command: Sequence[str]) -> int:
    """Run the story's command; return its exit code with nothing left below us."""
    _adopt_orphans()
    asked = 0
    story = subprocess.Popen([sys.executable, *command], start_new_session=True)

    def end(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked += 1
        with suppress(ProcessLookupError):
            story.send_signal(signal.SIGKILL if asked > 1 else number)

    before = {number: signal.signal(number, end) for number in ENDINGS}
    try:
        code = story.wait()
    finally:
        end_descendants()
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 - code if code < 0 else code


def become_story() -> None:
    """Tie this process to its keeper, and turn a wish to end into ``Interrupted``, once."""
    _adopt_orphans()
    keeper = os.getppid()
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != keeper:
        sys.exit(128 + signal.SIGTERM)

    def end(number: int, _frame: FrameType | None) -> None:
        for other in ENDINGS:  # we are ending: do not let a second wish break that off
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(signal.Signals(number).name)

    for number in ENDINGS:
        signal.signal(number, end)


def end_descendants(patience_s: float = PATIENCE_S) -> int:
    """End every process below this one; return how many there were."""
    me = psutil.Process()
    found = _living(me)
    for process in found:
        with suppress(psutil.Error):
            process.terminate()
    psutil.wait_procs(found, timeout=patience_s)
    while left := _living(me):
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=1.0)
    return len(found)


def _living(me: psutil.Process) -> list[psutil.Process]:
    """Return the descendants, having buried the adopted ones that are dead already."""
    below = me.children(recursive=True)
    psutil.wait_procs([child for child in below if _dead(child)], timeout=0)
    return [child for child in below if not _dead(child)]


def _dead(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _adopt_orphans() -> None:
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
