"""Migrate Airflow's database, make the connections and the tables; then become the command, if any.

    python prepare.py [COMMAND...]

It may run again: what is there stays as it is.
"""

import json
import os
import subprocess
import sys
import tempfile

import tables


def main(command: list[str]) -> None:
    """Prepare, and run the command in place of this process."""
    subprocess.run(["airflow", "db", "migrate"], check=True)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(connections(), file)
        file.flush()
        subprocess.run(["airflow", "connections", "import", "--overwrite", file.name], check=True)
    tables.make()
    if command:
        os.execvp(command[0], command)


def connections() -> dict[str, dict[str, object]]:
    """Return the connections; passwords and tokens stay in files, which they name.

    Keys of an object store are in the connection, which Airflow's database holds encrypted.
    """
    return {
        "segtable_default": {
            "conn_type": "segtable",
            "host": tables.ROOT,
            "extra": json.dumps(
                {
                    "storage_options": tables.storage_options(),
                    "zookeeper": os.environ["SEGTABLE_ZOOKEEPER"],
                    "zookeeper_options": json.loads(os.environ["SEGTABLE_ZOOKEEPER_OPTIONS"]),
                    "log_store_options": json.loads(os.environ["SEGTABLE_LOG_STORE_OPTIONS"]),
                }
            ),
        },
        "spark_cluster": {"conn_type": "spark", "host": "spark://spark-master", "port": 7077},
    }


if __name__ == "__main__":
    main(sys.argv[1:])
