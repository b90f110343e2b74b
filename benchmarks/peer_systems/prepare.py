"""Fetch what the peers need into ``build/peers``: PySpark by pip, their runtimes by Maven.

Each peer runs on the newest Spark that its newest runtime is made for. What is there is not fetched
again.
"""

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "build" / "peers"
SQLITE = "org.xerial:sqlite-jdbc:3.46.0.0"


@dataclass(frozen=True, slots=True)
class Peer:
    """A system's version, its Spark, and the artifacts of its runtime."""

    title: str
    pyspark: str
    artifacts: tuple[str, ...]

    @property
    def python(self) -> Path:
        """Return the Python of its environment."""
        return HOME / f"pyspark-{self.pyspark}" / "bin" / "python"


PEERS = {
    "hudi": Peer("Hudi 1.2.0", "3.5.9", ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",)),
    "iceberg": Peer(
        "Iceberg 1.12.0",
        "4.1.4",
        ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", SQLITE),
    ),
    "delta": Peer(
        "Delta Lake 4.4.0",
        "4.1.4",
        (
            "io.delta:delta-spark_4.1_2.13:4.4.0",
            "io.delta:delta-storage:4.4.0",
            "io.delta:delta-kernel-api:4.4.0",
            "io.delta:delta-kernel-defaults:4.4.0",
            "io.delta:delta-kernel-unitycatalog:4.4.0",
            "io.unitycatalog:unitycatalog-client:0.6.0",
            "io.unitycatalog:unitycatalog-hadoop:0.6.0",
        ),
    ),
    "paimon": Peer("Paimon 0.9.0", "3.5.9", ("org.apache.paimon:paimon-spark-3.5:0.9.0",)),
}


def prepared(name: str) -> tuple[Path, Path]:
    """Return the Python and the folder of jars of a peer; fetch what is not there."""
    peer, jars = PEERS[name], HOME / f"jars-{name}"
    if not peer.python.exists():
        venv.create(peer.python.parents[1], with_pip=True, symlinks=True)
        _run(str(peer.python), "-m", "pip", "install", "--quiet", f"pyspark=={peer.pyspark}")
    for artifact in peer.artifacts:
        if not (jars / _file(artifact)).exists():
            _run(
                *("mvn", "--quiet", "--batch-mode"),
                "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy",
                f"-Dartifact={artifact}",
                f"-DoutputDirectory={jars}",
            )
    return peer.python, jars


def _file(artifact: str) -> str:
    return "-".join(artifact.split(":")[1:]) + ".jar"


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)
