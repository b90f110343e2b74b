"""The end of a stack's processes: all of them, and no others."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from tests.support.processes import Marked, importable

RUNAWAY = "exec 3>{pipe}; echo $$ >&3; exec setsid sleep 600"
"""A process in a session of its own; ``pipe`` is closed when it is gone."""


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_what_left_its_parent_and_session_is_ended_too(pipe: Path) -> None:
    """An orphan in a session of its own still carries the mark; others are left alone."""
    marked = Marked("0123456789abcdef")
    env = {**os.environ, **marked.environment}
    subprocess.run(["sh", "-c", f"({RUNAWAY.format(pipe=pipe)}) &"], env=env, check=True)
    with pipe.open() as held, subprocess.Popen(["sleep", "600"]) as bystander:
        assert held.readline()
        marked.end()
        assert held.read() == ""
        assert bystander.poll() is None
        bystander.kill()
    assert marked.living() == []


def test_the_watcher_ends_them_when_their_owner_is_killed(pipe: Path) -> None:
    """SIGKILL leaves an owner no time; its watcher does what it cannot."""
    owner = """
        import os, subprocess, sys, time
        from tests.support.processes import Marked
        marked = Marked("fedcba9876543210")
        watcher = marked.watch()
        subprocess.Popen(["sh", "-c", sys.argv[1]], env={**os.environ, **marked.environment})
        time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(owner), RUNAWAY.format(pipe=pipe)]
    env = {**os.environ, "PYTHONPATH": importable()}
    with subprocess.Popen(command, env=env) as process, pipe.open() as held:
        assert held.readline()
        process.send_signal(signal.SIGKILL)
        assert held.read() == ""


def test_a_process_that_replaces_its_program_is_found(tmp_path: Path) -> None:
    """For a moment it has no environment to look into; each of many looks finds its mark."""
    marked = Marked("0123456789abcdef")
    program = tmp_path / "again"
    program.write_text('#!/bin/sh\nexec "$0" $(($1 + 1))\n')
    program.chmod(0o755)
    env = {**os.environ, **marked.environment}
    with subprocess.Popen([program, "0"], env=env) as process:
        looked_at = psutil.Process(process.pid)
        assert all(marked.marks(looked_at) for _ in range(500))
        process.kill()
