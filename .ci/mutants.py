"""Mutation testing: plant one small error at a time in a module, and see whether a test fails.

Run it as ``make mutants``; tests/MUTANTS.md says how to read the outcome.

1. Modules are named as ``core/locks`` or by folder (``core``); each has a workspace of its
   own, ``build/mutants/core.locks``, where mutmut changes a copy. The tree itself is never
   changed.
2. ``TESTS`` chooses the tests of a module: those that are about it, without `slow` and `long` ones.
   Of these, mutmut runs those that reach the changed function, quick ones first. ``--quick`` asks
   only the unit tests among them, and keeps its outcomes apart: survivors need a second look.
3. Outcomes are kept: a run that was stopped, by ``--minutes`` too, goes on where it left off. When
   the module changes, changed functions are tried again; when a test changes, survivors are.
4. ``--sample 50`` tries the first mutant of each function, and 50 others drawn by ``--seed``.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "airflow_provider_segtable"
LAYERS = ("core", "planning", "table")
COPIED = (PACKAGE, "tests", "spark_apps", "dags", "docs")
SAVED = Path("mutants")
"""Where mutmut keeps its copy and its outcomes, below a workspace."""
STATS = "mutmut-stats.json"
"""Which tests reach which function, and how long each took."""

CORE = ("tests/unit/core",)
RULES = (
    "tests/unit/core/test_rebase.py",
    "tests/unit/core/test_state.py",
    "tests/unit/core/test_state_answers.py",
    "tests/unit/core/test_plan_events.py",
    "tests/unit/core/test_codec.py",
    "tests/unit/core/test_replacement.py",
    "tests/unit/core/test_deletion.py",
    "tests/unit/core/test_cleaning.py",
)
LOCKS = (
    "tests/unit/core/test_locks.py",
    "tests/unit/core/test_lock_modes.py",
    "tests/property/test_locks.py",
    "tests/property/test_lock_modes.py::test_histories_agree_with_the_model",
    "tests/property/test_lock_modes.py::test_places_are_served_in_one_order",
)
CROSSING = "tests/property/test_overshadow_exhaustive.py"
SHADOWS = (
    "tests/unit/core/test_overshadow.py",
    "tests/unit/core/test_timeline.py",
    "tests/unit/core/test_invariants.py",
    "tests/unit/core/test_replacement.py",
    "tests/property/test_overshadow_random.py",
    "tests/property/test_overshadow_spans.py",
    f"{CROSSING}::test_every_step_over_crossing_ranges_obeys_the_general_rule",
)
CLEANING = ("tests/property/test_cleaning.py",)
CLAIMS = ("tests/unit/core/test_version_claims.py", "tests/unit/core/test_recovery.py")
REPAIR = (
    "tests/unit/core/test_recovery.py",
    "tests/unit/services/test_repair.py",
    "tests/unit/services/test_repair_deletes.py",
)
VERSIONS = ("tests/property/test_versions.py",)
CHANGES = ("tests/property/test_changes.py",)
LOG = (
    "tests/unit/table/test_committer.py",
    "tests/unit/table/test_commit_races.py",
    "tests/unit/table/test_event_log.py",
)
ROW_CHANGES = (
    "tests/unit/table/test_change.py",
    "tests/unit/table/test_change_outcomes.py",
    "tests/unit/table/test_delete.py",
    "tests/unit/table/test_dry_run.py",
    "tests/unit/table/test_erasing.py",
    "tests/unit/table/test_overwrite.py",
    "tests/unit/table/test_update.py",
    "tests/unit/services/test_changes.py",
)
OVERWRITES = (
    "tests/unit/table/test_overwrite.py",
    "tests/unit/table/test_delete.py",
    "tests/unit/table/test_erasing.py",
    "tests/unit/services/test_overwrites.py",
)
RESTORES = (
    "tests/unit/core/test_restored.py",
    "tests/unit/core/test_codec.py",
    "tests/unit/table/test_restore.py",
    "tests/property/test_restore.py",
)
DEFINITIONS = (
    "tests/unit/core/test_alterations.py",
    "tests/unit/core/test_evolution.py",
    "tests/unit/core/test_codec.py",
    "tests/unit/table/test_columns.py",
    "tests/unit/table/test_properties.py",
    "tests/unit/cli/test_alter.py",
    "tests/unit/cli/test_column_types.py",
)
CHECKPOINTS = (
    "tests/unit/table/test_checkpoint.py",
    "tests/unit/table/test_checkpoint_copies.py",
    "tests/unit/table/test_event_log.py",
    "tests/unit/table/test_overwrite.py",
    "tests/unit/table/test_restore.py",
    "tests/unit/table/test_golden_table.py",
    "tests/property/test_packed_chunks.py",
)
REQUESTS = (
    "tests/unit/core/test_overwrite_request.py",
    "tests/unit/core/test_change_request.py",
    "tests/property/test_change_request.py",
    "tests/unit/table/test_delete.py",
    "tests/unit/table/test_dry_run.py",
    "tests/unit/table/test_overwrite.py",
    "tests/unit/table/test_scan.py",
    "tests/unit/table/test_update.py",
)
PREDICATES = (
    "tests/unit/core/test_predicate_times.py",
    "tests/unit/core/test_predicate_bounds.py",
    "tests/unit/core/test_predicate_values.py",
    "tests/unit/core/test_predicate.py",
    "tests/unit/core/test_deletion.py",
    "tests/unit/data/test_predicates.py",
    "tests/unit/data/test_sql.py",
    "tests/unit/table/test_erasing.py",
)
LOG_STORE = (
    "tests/unit/core/test_log_store.py",
    "tests/unit/core/test_log_lag.py",
    "tests/unit/table/test_log_store.py",
    "tests/unit/table/test_log_checkpoints.py",
    "tests/unit/table/test_tail.py",
    "tests/unit/table/test_union_scan.py",
    "tests/property/test_log_assignment.py",
    "tests/property/test_log_files.py",
    "tests/property/test_log_manifest.py",
    "tests/property/test_log_store.py",
)
SCANS = (
    "tests/unit/table/test_scan.py",
    "tests/unit/table/test_delete.py",
    "tests/unit/table/test_columns.py",
    "tests/unit/table/test_tags.py",
)
BASES = (
    "tests/unit/core/test_bases.py",
    "tests/unit/table/test_golden_keyed.py",
    "tests/integration/publishing/test_bases.py",
    "tests/unit/services/test_other_buckets.py",
    "tests/property/test_file_slices.py",
)
KEYED = (
    "tests/unit/core/test_table_kinds.py",
    "tests/unit/data/test_keyed_merge.py",
    "tests/unit/table/test_keyed_columns.py",
    "tests/unit/table/test_keyed_merge.py",
    *BASES,
)
LOADS = ("tests/unit/core/test_loads.py", "tests/unit/cli/test_loads.py")
INDEXES = (
    "tests/unit/table/test_table_indexes.py",
    "tests/unit/table/test_index_kinds.py",
    "tests/unit/table/test_index_catch_up.py",
    "tests/unit/table/test_indexes.py",
    "tests/unit/table/test_pruning.py",
    "tests/unit/table/test_record_index.py",
    "tests/unit/table/test_fed_entries.py",
    "tests/unit/table/test_joined_feeds.py",
    "tests/unit/services/test_index_builds.py",
    "tests/unit/services/test_cleaning_indexes.py",
)
ROUTING = ("tests/unit/table/test_record_routing.py", "tests/unit/table/test_record_index.py")
PUBLISHING = (
    "tests/unit/publishing",
    "tests/unit/formats/test_damaged_targets.py",
    "tests/unit/services/test_planned_publishing.py",
)

TESTS: dict[str, tuple[str, ...]] = {
    "core": CORE,
    "core/log_store": LOG_STORE,
    "core/log/state": (
        *CORE,
        *LOADS,
        *OVERWRITES,
        *RULES,
        *VERSIONS,
        *CLEANING,
        *CHANGES,
    ),
    "core/log/events": ("tests/unit/core/test_codec.py",),
    "core/segment": BASES,
    "core/tables/keyed_kind": KEYED,
    "core/indexes": INDEXES,
    "core/publishing": PUBLISHING,
    "core/requests": REQUESTS,
    "core/predicate": PREDICATES,
    "core/log/families/restore_events": RESTORES,
    "core/log/families/table_events": (*RULES, *DEFINITIONS),
    "core/log/families/tag_events": ("tests/unit/table/test_tags.py", *RULES),
    "core/tables": (*CORE, *DEFINITIONS),
    "planning": (
        "tests/unit/planning",
        "tests/unit/services/test_planner.py",
        "tests/unit/services/test_request.py",
    ),
    "table": ("tests/unit/table", "tests/unit/services/test_changes.py"),
    "table/log_store": LOG_STORE,
    "table/indexes": INDEXES,
    "table/indexes/routing": ROUTING,
    "table/publishing": PUBLISHING,
    "table/load": LOADS,
    "table/alteration": DEFINITIONS,
    "table/definition": DEFINITIONS,
    "table/restoration": RESTORES,
    "table/scan": SCANS,
    "table/log/checkpoint": CHECKPOINTS,
    "table/log/checkpoint_chunks": CHECKPOINTS,
    "table/changes": ROW_CHANGES,
    "table/changes/matching": (
        "tests/unit/table/test_update.py",
        "tests/unit/table/test_columns.py",
    ),
    "table/changes/run_change": OVERWRITES,
    "core/recovery/claims": (
        *CLAIMS,
        *REPAIR,
    ),
    "core/log/plan": ("tests/unit/core/test_plans.py", *RULES),
    "core/log": RULES,
    "core/log/families/cleaning_events": (*RULES, *CLEANING),
    "core/log/families/append_events": (*RULES, *VERSIONS),
    "core/log/families/change_events": (*RULES, *CHANGES),
    "core/log/families/plan_events": (*RULES, *VERSIONS),
    "core/deletion": (*CORE, *CHANGES, *CLEANING),
    "core/chunk": SHADOWS,
    "core/locks": LOCKS,
    "core/timeline": SHADOWS,
    "core/recovery/replay": REPAIR,
    "core/log/group_plans": (*CORE, *CHANGES),
    "core/log/major_plan": (*CORE, *VERSIONS),
    "core/log/replacement": (*CORE, *VERSIONS),
    "core/spans": ("tests/unit/core/test_spans.py", *SHADOWS),
    "core/log/fold": (*RULES, *VERSIONS, *CLEANING),
    "planning/properties": ("tests/unit/planning/test_retention.py",),
    "table/changes/row_change": (*ROW_CHANGES, "tests/unit/table/test_restore.py", *CHANGES),
    "table/committer": LOG,
    "table/log/event_log": LOG,
    "table/kept_versions": ("tests/unit/table/test_tags.py",),
    "table/unnamed_files": ("tests/unit/table/test_unnamed_files.py",),
    "table/append": ("tests/unit/table/test_append.py",),
}
"""Tests of a module, or of all other modules of a folder: the cheapest that can notice."""

SETTINGS = """
[tool.mutmut]
source_paths = ["{package}"]
only_mutate = ["{package}/{module}.py"]
also_copy = ["spark_apps", "dags", "docs", "{plugin}.py"]
pytest_add_cli_args = ["-p", "no:xdist", "-p", "no:cacheprovider", "-p", "{plugin}"]
pytest_add_cli_args_test_selection = {tests}
# Prose is not tried: a message may be worded in another way.
do_not_mutate_patterns = ['"[^"\\n]* [^"\\n]*"', "'[^'\\n]* [^'\\n]*'"]
timeout_constant = 20.0
timeout_multiplier = 5.0
track_dependencies = false
use_git_change_detection = false
"""
PLUGIN = '''
"""Run quick tests first, and none much longer than it takes: a mutant may loop for ever."""
import json
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    known = Path("mutmut-stats.json")
    if known.exists():
        took = json.loads(known.read_text())["duration_by_test"]
        items.sort(key=lambda item: took.get(item.nodeid, 0.0))
        for item in items:
            limit = 10 + 5 * took.get(item.nodeid, 10.0)
            item.add_marker(pytest.mark.timeout(limit), append=False)
'''
SHOW = """import sys; from mutmut.__main__ import show
for name in sys.argv[1:]: show.callback(name)"""
MUTMUT = str(Path(sys.executable).with_name("mutmut"))
PLUGIN_NAME = "quick_tests_first"
STOPPING_S = 10
CAUGHT = {1, 3, 36, 24, -24, 152, 255}
"""Exit codes of pytest that failed, or that was stopped as it took too long."""
UNREACHED = {5, 33}
STOPPED = {None, 2, -2, -9, -15}
OUTCOMES = ("caught", "survived", "unreached", "untried")
ALIVE = ("survived", "unreached")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A module, its tests, and what became of its mutants."""

    module: str
    quick: bool

    @property
    def place(self) -> Path:
        """Return the workspace."""
        name = self.module.replace("/", ".") + (".quick" if self.quick else "")
        return ROOT / "build" / "mutants" / name

    @property
    def tests(self) -> list[str]:
        """Return how pytest is told which tests to run."""
        names = (self.module, *map(str, PurePosixPath(self.module).parents))
        chosen = next(TESTS[name] for name in names if name in TESTS)
        mine = [test for test in chosen if not self.quick or test.startswith("tests/unit/")]
        return [*mine, "-m", "not slow and not long and not zookeeper"]

    def outcomes(self, *wanted: str) -> dict[str, str]:
        """Return the outcome of each mutant by name, of the wanted kinds or all."""
        saved = self.place / SAVED / PACKAGE / f"{self.module}.py.meta"
        codes = json.loads(saved.read_text())["exit_code_by_key"] if saved.exists() else {}
        found = {name: _kind(code) for name, code in codes.items()}
        return {name: kind for name, kind in found.items() if kind in (wanted or OUTCOMES)}

    def prepare(self) -> set[str]:
        """Bring the workspace up to date; return the Python files that have changed there."""
        before = self._contents()
        for name in COPIED:
            shutil.rmtree(self.place / name, ignore_errors=True)
            unwanted = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, self.place / name, ignore=unwanted)
        shutil.rmtree(self.place / SAVED / "tests", ignore_errors=True)
        (self.place / SAVED).mkdir(exist_ok=True)
        settings = SETTINGS.format(
            package=PACKAGE, module=self.module, plugin=PLUGIN_NAME, tests=json.dumps(self.tests)
        )
        project = (ROOT / "pyproject.toml").read_text() + settings
        (self.place / "pyproject.toml").write_text(project)
        (self.place / f"{PLUGIN_NAME}.py").write_text(PLUGIN)
        after = self._contents()
        paths = before.keys() | after.keys()
        return {path for path in paths if before.get(path) != after.get(path)}

    def _contents(self) -> dict[str, bytes]:
        files = (path for name in COPIED for path in (self.place / name).rglob("*.py"))
        return {str(path.relative_to(self.place)): path.read_bytes() for path in files}

    def run(self, names: Iterable[str], deadline: float) -> bool:
        """Try mutants, all untried ones if none is named; return whether there was time to end."""
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        log = self.place / "mutmut.log"
        with log.open("w") as out:
            running = subprocess.Popen(
                [MUTMUT, "run", "--max-children", "1", *names],
                cwd=self.place,
                env={**os.environ, "PYTHONPATH": str(self.place / SAVED)},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
            try:
                status = running.wait(left)
            except subprocess.TimeoutExpired:
                running.send_signal(signal.SIGINT)  # what has an outcome keeps it
                try:
                    running.wait(STOPPING_S)
                except subprocess.TimeoutExpired:
                    running.kill()
                return False
        if status:
            sys.exit(f"mutmut failed for {self.module}: see {log.relative_to(ROOT)}")
        return True

    def report(self) -> bool:
        """Print what is known, survivors with their diffs; return whether there are any."""
        known = self.outcomes()
        count = Counter(known.values())
        told = ", ".join(f"{count[kind]} {kind}" for kind in OUTCOMES)
        print(f"{self.module}: {len(known)} mutants, {told}", flush=True)
        alive = self.outcomes(*ALIVE)
        command = [sys.executable, "-c", SHOW, *alive]
        shown = subprocess.run(
            command, cwd=self.place, capture_output=True, text=True, check=False
        ).stdout
        changed = (line for line in shown.splitlines() if line[:1] in set("#-+"))
        wanted = (line for line in changed if not line.startswith(("---", "+++")))
        print("".join(f"  {line}\n" for line in wanted), end="", flush=True)
        return bool(alive)


def main(argv: list[str] | None = None) -> int:
    """Try out the chosen modules one after another; return 1 if a mutant survived."""
    options = _options(argv)
    deadline = time.monotonic() + 60 * options.minutes
    survived = False
    for module in modules(options.modules):
        trial = Trial(module=module, quick=options.quick)
        if not options.show:
            _try_out(trial, options, deadline)
        survived |= trial.report()
    return int(survived)


def _options(argv: list[str] | None) -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__, formatter_class=form)
    parser.add_argument("modules", nargs="*", default=list(LAYERS), help="core/locks, core")
    parser.add_argument("--minutes", type=float, default=30, help="stop after so many (30)")
    parser.add_argument("--quick", action="store_true", help="ask only the tests of the folder")
    parser.add_argument("--sample", type=int, default=0, help="try at most so many of a module")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--show", action="store_true", help="only print what is known")
    return parser.parse_args(argv)


def modules(named: Iterable[str]) -> list[str]:
    """Return the modules that were asked for, as ``core/locks``."""
    found: list[str] = []
    for name in named:
        path = ROOT / PACKAGE / name.removeprefix(f"{PACKAGE}/").removesuffix(".py")
        inside = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        found += [str(one.relative_to(ROOT / PACKAGE))[:-3] for one in inside if one.exists()]
    left = [name for name in dict.fromkeys(found) if not name.endswith("__init__")]
    if not left or any(name.split("/")[0] not in LAYERS for name in left):
        sys.exit(f"no such module in {', '.join(LAYERS)}: {' '.join(named)}; name core/locks")
    return left


def _kind(code: int | None) -> str:
    if code in STOPPED:
        return "untried"
    if code in UNREACHED:
        return "unreached"
    return "caught" if code in CAUGHT else "survived"


def _try_out(trial: Trial, options: argparse.Namespace, deadline: float) -> None:
    alive = trial.outcomes(*ALIVE)
    tests_changed = any(path.startswith("tests/") for path in trial.prepare())
    if tests_changed:  # they may reach other functions than before
        (trial.place / SAVED / STATS).unlink(missing_ok=True)
    if not options.sample:
        in_time = trial.run([], deadline)
    elif in_time := trial.run(["*__mutmut_1"], deadline):  # it names the others, too
        left = sorted(trial.outcomes("untried"))
        random.Random(options.seed).shuffle(left)  # noqa: S311 - it chooses a sample
        in_time = not left or trial.run(left[: options.sample], deadline)
    again = alive.keys() & trial.outcomes(*ALIVE).keys()
    if in_time and tests_changed and again:
        trial.run(sorted(again), deadline)


if __name__ == "__main__":
    sys.exit(main())
