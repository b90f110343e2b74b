"""`make compose-test`: everything once, and then every fault while rows are written.

    python -m tests.docker.play [--only SERVICE ...] [--skip PLAY ...]

The containers of `make compose` run already. First come rights and secrets, each kind of work by
command, and each kind of run by Airflow and Spark. Then a witness writes by three ways, while
containers are killed one after the other, networks are cut, the tables' volume is full, all are
restarted at once, and all are replaced by a newer version. In the end the witness compares what
was acknowledged with what is there, and each table is verified.

A process is killed as a crash kills it, where we may send signals to containers' processes;
otherwise by `docker kill` and `docker start`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence

from tests.docker import faults, safety
from tests.docker.engine import (
    LAKE,
    PATIENCE_S,
    ROOT,
    STORE,
    Airflow,
    containers,
    docker,
    inspected,
    segtable,
    state,
    waited,
    well,
)

BETWEEN_S = 3
CUT_S = 45
"""Longer than a session of ZooKeeper (30 s)."""
FULL_S = 20
WITNESS = f"witness_{int(time.time())}"
TABLES = ("events", "accounts", "clicks", f"{WITNESS}_appends", f"{WITNESS}_upserts")
SETTINGS = ("SEGTABLE_", "DEMO_")
KINDS = ("minor", "semi_major", "major", "index")
ZOOKEEPERS = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
SPARK_WORKERS = ("spark-worker-1", "spark-worker-2")

PROGRAMS = ("segtable-journey", "segtable-witness")
"""Containers beside those of compose; their names."""

Row = Callable[[str, str], None]


def beside(found: dict[str, str], name: str, program: str) -> str:
    """Start a program of this folder with what the writer has: volumes, network, secrets."""
    model = inspected(found["writer"])
    mounts = [
        f"{each['Source']}:{each['Destination']}:ro"
        for each in model["Mounts"]
        if each["Type"] == "bind"
    ]
    volumes = [
        f"{each['Name']}:{each['Destination']}"
        for each in model["Mounts"]
        if each["Type"] == "volume"
    ]
    settings = [each for each in model["Config"]["Env"] if each.startswith(SETTINGS)]
    settings.append(f"DEMO_WITNESS={WITNESS}")
    mounts.append(f"{ROOT}/tests/docker/{program}.py:/{program}.py:ro")
    words = [word for each in mounts + volumes for word in ("-v", each)]
    words += [word for each in settings for word in ("-e", each)]
    network = next(iter(model["NetworkSettings"]["Networks"]))
    docker("rm", "-f", name, check=False)
    return docker(
        "run", "-d", "--name", name, "--network", network, *words,
        model["Config"]["Image"], "python", f"/{program}.py",
    )  # fmt: skip


def every_kind(found: dict[str, str], airflow: Airflow) -> list[str]:
    """Do each kind of work by command, then by a run of Airflow; return what failed."""
    traveller = beside(found, PROGRAMS[0], "journey")
    waited("the journey", lambda: state(traveller) == "exited")
    said = docker("logs", traveller, check=False)
    print(said, flush=True)
    failed = [] if "sound: every kind of work, once" in said else ["the journey"]
    for kind in KINDS:
        dag = f"segtable_{kind}__events"
        waited("the first segments", lambda: bool(segments(found)))
        conf = {"index": "by_user"} if kind == "index" else {"segments": segments(found)[:3]}
        outcome, took = airflow.ended(dag, airflow.run(dag, **conf))
        print(f"Airflow and Spark: {dag}: {outcome} after {took:.0f} s", flush=True)
        if outcome != "success":  # a planned run may have replaced its segments meanwhile
            print(f"{dag}, repeated: {compacts(found, airflow, dag):.0f} s", flush=True)
    return failed


def compacts(found: dict[str, str], airflow: Airflow, dag: str = "segtable_major__events") -> float:
    """Compact some segments by Airflow and Spark until a run succeeds; return the seconds."""
    begun = time.monotonic()
    while True:
        conf = {"index": "by_user"} if "index" in dag else {"segments": segments(found)[:3]}
        outcome, _ = airflow.ended(dag, airflow.run(dag, **conf))
        if outcome == "success":
            return time.monotonic() - begun
        if time.monotonic() - begun > PATIENCE_S:
            raise SystemExit(f"{dag} does not succeed")


def segments(found: dict[str, str]) -> list[str]:
    """Return the ids of the visible segments of `events`."""
    said = segtable(found, "table", "segments", f"{LAKE}/events", "--json")
    return [str(each["id"]) for each in json.loads(said)["segments"]]


def rest(airflow: Airflow, *, paused: bool) -> None:
    """Let the planners of two tables rest: on few cores their runs would keep ours waiting."""
    for name in ("accounts", "clicks"):
        airflow(f"/dags/segtable_planner__{name}", {"is_paused": paused}, method="PATCH")


def kills(found: dict[str, str], names: Sequence[str], row: Row) -> None:
    """Kill one after the other."""
    for name in names:
        faults.crash(found[name])
        time.sleep(0.5)
        row(f"`{name}` killed", f"{well(found):.0f} s")
        time.sleep(BETWEEN_S)


def cuts(found: dict[str, str], airflow: Airflow, row: Row) -> None:
    """Cut the networks that runs of Airflow need; name how long the next run took."""
    with faults.cut(found["airflow-worker"], [found[name] for name in ZOOKEEPERS]):
        airflow.run("segtable_planner__events")
        time.sleep(CUT_S)
    row(f"no way from Airflow's worker to ZooKeeper for {CUT_S} s", after(found, airflow))
    if STORE != "s3":
        return
    with (
        faults.cut(found[SPARK_WORKERS[0]], [found["s3"]]),
        faults.cut(found[SPARK_WORKERS[1]], [found["s3"]]),
    ):
        airflow.run("segtable_major__events", segments=segments(found)[:2])
        time.sleep(CUT_S)
    row(f"no way from Spark's workers to the store for {CUT_S} s", after(found, airflow))


def after(found: dict[str, str], airflow: Airflow) -> str:
    """Return how long it took until all is healthy, and until a run compacts again."""
    healthy = well(found)
    took = compacts(found, airflow)
    return f"{healthy:.0f} s; then Airflow and Spark compacted, in a run of {took:.0f} s"


def fill(found: dict[str, str], airflow: Airflow, row: Row) -> None:
    """Fill the tables' volume for a while."""
    with faults.full() as filled:
        time.sleep(FULL_S)
    row(f"a full volume for {FULL_S} s ({filled})", after(found, airflow))


def main(argv: Sequence[str] | None = None) -> int:
    """Play; print a table of times; return 1 if anything is wrong."""
    given = parsed(argv)
    found, airflow = containers(), Airflow()
    if "writer" not in found:
        raise SystemExit("the containers do not run: make compose")
    well(found)
    wrong = list(safety.problems(found))
    print(f"rights and secrets: {'; '.join(wrong) or 'as promised'}", flush=True)
    rest(airflow, paused=True)
    if "kinds" not in given.skip:
        wrong += every_kind(found, airflow)
    watching = beside(found, PROGRAMS[1], "witness")
    time.sleep(BETWEEN_S)
    print(f"memory: {faults.used_memory()}", flush=True)
    print("| what happened | all healthy again after |\n|---|---|", flush=True)

    def row(what: str, took: str) -> None:
        print(f"| {what} | {took} |", flush=True)

    if "kills" not in given.skip:
        kills(found, given.only or sorted(found), row)
    if "cuts" not in given.skip:
        cuts(found, airflow, row)
    if "full" not in given.skip:
        fill(found, airflow, row)
    if "restart" not in given.skip:
        faults.restart_all(found)
        row("all killed, and started at once", after(found, airflow))
    if "upgrade" not in given.skip:
        for name, took in faults.upgrade(found):
            row(f"`{name}` replaced by a newer version", f"{took:.0f} s")
        found = containers()
        row("all are newer", after(found, airflow))
        print(f"versions: {', '.join(sorted(set(faults.versions(found).values())))}", flush=True)
    rest(airflow, paused=False)
    wrong += outcome(found, watching)
    docker("rm", "-f", *PROGRAMS, check=False)  # they hold the tables' volume
    print(f"FAILED: {'; '.join(wrong)}" if wrong else "passed")
    return 1 if wrong else 0


def outcome(found: dict[str, str], watching: str) -> list[str]:
    """End the witness, and verify the tables; return what is wrong."""
    said = faults.stopped(watching)
    print("\n".join(said.splitlines()[-6:]))
    wrong = [] if "sound: " in said and "WRONG" not in said else ["the witness"]
    for name in TABLES:
        verified = segtable(found, "verify", "--deep", f"{LAKE}/{name}").splitlines()[-1]
        print(f"{name}: {verified}", flush=True)
        wrong += [] if verified.startswith("sound") else [name]
    return wrong + [f"leaked later: {each}" for each in safety.problems(found)]


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], help="kill these services alone")
    plays = ("kinds", "kills", "cuts", "full", "restart", "upgrade")
    parser.add_argument("--skip", nargs="+", default=[], choices=plays, help="leave these out")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
