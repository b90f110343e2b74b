"""Make a Python like an executor's: the standard library and the named packages only."""

import importlib
import venv
from pathlib import Path


def bare_python(folder: Path, *packages: str) -> Path:
    """Make a virtual environment with links to installed packages; return its interpreter."""
    venv.create(folder, symlinks=True, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in packages:
        found = importlib.import_module(name).__file__
        assert found
        home = Path(found).parent
        for place in (home, home.with_name(f"{name}.libs")):
            if place.is_dir():
                (site / place.name).symlink_to(place)
    return folder / "bin" / "python"
