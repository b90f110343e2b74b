"""The demo: it tells the truth, and leaves no process behind however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.events import decode_file, kind_of
from examples.demo.story_process import MARK, own_folder

REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 240.0

# A story like the demo's: it starts something that leaves its parent and its session, says the
# process ids, and then waits.
KEEPER = """
import sys
from examples.demo.demo_processes import keep
sys.exit(keep(["-c", sys.argv[1]]))
"""
STORY = """
import os, subprocess, sys, time
from examples.demo.demo_processes import Interrupted, become_story, end_descendants
become_story()
code = "import subprocess as s; sleep = s.Popen(['sleep', '1000'], start_new_session=True, " \\
    "stdout=s.DEVNULL, stderr=s.DEVNULL); print(sleep.pid, flush=True)"
slipped = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
direct = subprocess.Popen(["sleep", "1000"])
try:
    print(os.getpid(), int(slipped), direct.pid, flush=True)
    time.sleep(1000)
except Interrupted:
    sys.exit(130)
finally:
    end_descendants()
"""


@pytest.fixture
def kept() -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A keeper with its story, and the ids of the story and what it has started."""
    with subprocess.Popen(
        [sys.executable, "-c", KEEPER, STORY],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    ) as keeper:
        assert keeper.stdout
        yield keeper, [int(word) for word in keeper.stdout.readline().split()]


def _gone(pids: list[int]) -> bool:
    return not any(_runs(pid) for pid in pids)


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:.0f} s: {what}"
        time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_wish_to_end_is_passed_on(
    kept: tuple[subprocess.Popen[str], list[int]], how: signal.Signals
) -> None:
    """The story ends in order with its own exit code, and nothing is left."""
    keeper, pids = kept
    assert all(map(_runs, pids))
    keeper.send_signal(how)
    assert keeper.wait(PATIENCE_S) == 130
    assert _gone(pids)


def test_a_killed_story_leaves_nothing(kept: tuple[subprocess.Popen[str], list[int]]) -> None:
    """The keeper ends what the story has started, even what had left its session."""
    keeper, pids = kept
    os.kill(pids[0], signal.SIGKILL)
    assert keeper.wait(PATIENCE_S) == 128 + signal.SIGKILL
    assert _gone(pids)


def test_a_killed_keeper_leaves_nothing(kept: tuple[subprocess.Popen[str], list[int]]) -> None:
    """The story hears of it from the kernel, and ends in order."""
    keeper, pids = kept
    keeper.kill()
    keeper.wait(PATIENCE_S)
    _wait(lambda: _gone(pids), "all processes end")


def test_a_folder_of_others_is_left_alone(tmp_path: Path) -> None:
    """Only what a demo has made is replaced."""
    theirs = tmp_path / "thesis.txt"
    theirs.write_text("years of work")
    with pytest.raises(InvalidInput, match="--dir"), own_folder(tmp_path):
        pass
    assert theirs.read_text() == "years of work"


def test_an_older_demo_is_replaced_and_a_running_one_is_not(tmp_path: Path) -> None:
    """A second demo starts anew, but not under a running one's feet."""
    place = tmp_path / "demo"
    with own_folder(place):
        (place / "flights").mkdir()
        (place / "log").write_text("old")
    with own_folder(place):
        assert [path.name for path in place.iterdir()] == [MARK]
        with pytest.raises(InvalidInput, match="another demo runs"), own_folder(place):
            pass


def _demo(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "examples.demo", "--dir", str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


def _below(pid: int) -> list[int]:
    return [process.pid for process in psutil.Process(pid).children(recursive=True)]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.zookeeper
def test_the_demo_without_airflow_finds_all_rows(tmp_path: Path) -> None:
    """Appended by Spark and compacted at once, every row is there: equal numbers and checksums."""
    folder = tmp_path / "demo"
    with _demo(folder, "--no-airflow", "--rows", "20000") as demo:
        told, _ = demo.communicate(timeout=2 * PATIENCE_S)
    assert demo.returncode == 0, told
    assert told.count("equal") == 2
    assert "DIFFERENT" not in told
    files = sorted((folder / "flights" / "_segtable" / "timeline").iterdir())
    events = [event for file in files for event in decode_file(file.read_bytes(), file.name)]
    kinds = [kind_of(event.action).name for event in events]
    assert kinds.count("Appended") == 20
    first = kinds.index("PlanCompleted")
    assert "Appended" in kinds[first:], "no append came while plans were carried out"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.zookeeper
def test_ctrl_c_in_the_middle_leaves_no_process(tmp_path: Path) -> None:
    """ZooKeeper, Spark and its workers are gone when an interrupted demo ends."""
    with _demo(tmp_path / "demo", "--no-airflow", "--rows", "20000") as demo:
        timeline = tmp_path / "demo" / "flights" / "_segtable" / "timeline"
        _wait(lambda: timeline.exists() and len(list(timeline.iterdir())) > 1, "Spark appends")
        below = _below(demo.pid)
        assert len(below) >= 4  # the story, ZooKeeper, the writers' driver, its JVM
        demo.send_signal(signal.SIGINT)
        told, _ = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 130, told
    assert _gone(below)
    assert "Traceback" not in told
