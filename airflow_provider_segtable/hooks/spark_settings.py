"""Check Spark settings for ``spark-submit``, and keep credentials off its command line.

1. A setting is ``spark.<name>`` with a text, number or boolean value. Spark would ignore or
   misread any other form, so it is refused.
2. All users of a machine see a command line, and it is logged. So a setting with a credential's
   name goes into a file that only this user can read (``--properties-file``), and the command
   names the file. It is removed when ``spark-submit`` has ended.
3. ``spark-submit`` reads that file instead of ``spark-defaults.conf``, so the file begins with
   the defaults.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_provider_segtable.core.arguments import plain, shown
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.secret import SecretOptions, is_secret_name

DEPLOY_MODES = ("client", "cluster")
_KEY = re.compile(r"spark(?:\.[A-Za-z0-9_/$-]+)+")
_MASTER = re.compile(
    r"local(?:\[(?:\*|\d+)(?:, ?\d+)?\])?|local-cluster\[\d+, ?\d+, ?\d+\]|yarn"
    r"|spark://[\w.:,\[\]-]+|k8s://(?:https?://)?[\w.:\[\]/-]+"
)


def checked_settings(given: Mapping[str, Any]) -> SecretOptions:
    """Return Spark settings as texts.

    Raises:
        InvalidInput: a name is not a Spark setting, or a value is not a text, number or boolean.
    """
    return SecretOptions({_key(key): _value(key, value) for key, value in given.items()})


def checked_master(given: object) -> str:
    """Return the URL of a Spark master.

    Raises:
        InvalidInput: it has another form.
    """
    if not isinstance(given, str) or not _MASTER.fullmatch(given):
        raise InvalidInput(
            f"Spark master {shown(given)} is invalid: write local[*], local[4], "
            "spark://host:7077, yarn or k8s://https://host:443"
        )
    return given


def checked_deploy_mode(given: object) -> str:
    """Return where a driver runs.

    Raises:
        InvalidInput: it is not in ``DEPLOY_MODES``.
    """
    if not isinstance(given, str) or given not in DEPLOY_MODES:
        raise InvalidInput(
            f"deploy mode {shown(given)} is invalid: write one of {', '.join(DEPLOY_MODES)}"
        )
    return given


def public_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that a command line may show."""
    return {key: value for key, value in given.items() if not is_secret_name(key)}


def secret_settings(given: Mapping[str, str]) -> SecretOptions:
    """Return the settings that are credentials."""
    return SecretOptions({key: value for key, value in given.items() if is_secret_name(key)})


@contextmanager
def properties_file(given: Mapping[str, str], defaults: Path | None) -> Iterator[Path | None]:
    """Write a file of settings that exists while the block runs; yield None without settings.

    Args:
        given: the credentials.
        defaults: the file that Spark would otherwise read.
    """
    if not given:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="segtable-") as folder:  # of mode 0700
        file = Path(folder, "spark.properties")
        before = defaults.read_text("utf-8") if defaults is not None and defaults.is_file() else ""
        lines = (f"{key} {_escaped(value)}\n" for key, value in given.items())
        file.touch(0o600)
        file.write_text(f"{before.rstrip()}\n{''.join(lines)}", "utf-8")
        yield file


def spark_defaults(home: Path | None = None) -> Path | None:
    """Return the ``spark-defaults.conf`` of ``home``; by default of the Spark on the PATH."""
    if folder := os.environ.get("SPARK_CONF_DIR"):
        return Path(folder, "spark-defaults.conf")
    if home is None and (named := os.environ.get("SPARK_HOME")):
        home = Path(named)
    if home is None and (found := shutil.which("spark-submit")):
        home = Path(found).resolve().parents[1]
    return home and home / "conf" / "spark-defaults.conf"


def _key(key: object) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidInput(
            f"{shown(key)} is not a Spark setting: names begin with 'spark.' and have letters, "
            "digits, '.', '_', '-' and '/'"
        )
    return key


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    try:
        return plain(f"setting {key}", value)
    except InvalidInput as error:
        if is_secret_name(key):
            raise InvalidInput(
                f"setting {key} is invalid: write text without line breaks"
            ) from None
        raise error from None


def _escaped(value: str) -> str:
    """Return a value, escaped for Java's properties files."""
    text = value.replace("\\", "\\\\")
    return f"\\{text}" if text[:1] in {" ", "="} or text[:1] == ":" else text
