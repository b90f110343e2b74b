"""What a session shows of credentials: the command line of its JVM is seen by all users."""

import json
import os
import subprocess
import sys
from pathlib import Path

from airflow_provider_segtable.core.secret import CREDENTIAL_NAMES

CANARY = "canary-7f3a91c2"
SETTINGS = {
    "spark.hadoop.fs.s3a.secret.key": CANARY,
    "spark.hadoop.fs.azure.account.key.x": CANARY,
    "spark.executor.memory": "1g",
}


def test_a_session_shows_no_credential_on_the_command_line_of_its_jvm(tmp_path: Path) -> None:
    """PySpark puts settings on it; credentials are given to the JVM when it runs."""
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.touch(0o755)
    submit.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/argv\nexit 1\n')
    program = (
        "import json, sys; from airflow_provider_segtable.spark.driver.session import session;"
        "session('x', 'local[1]', json.load(sys.stdin))"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(SETTINGS),
        env={**os.environ, "SPARK_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    argv = (tmp_path / "argv").read_text()
    assert "spark.executor.memory=1g" in argv
    assert f"spark.redaction.regex=(?i){CREDENTIAL_NAMES}" in argv
    assert CANARY not in argv
