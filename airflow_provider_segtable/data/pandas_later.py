"""Let pyarrow recognise pandas' values once pandas is imported, instead of importing it itself.

When pyarrow makes its first array of Python values, it imports pandas if that is installed, to
recognise pandas' types. That takes a quarter of a second, and a process that compacts files has no
value of pandas.

1. ``import_pandas_later`` lets pyarrow look for pandas once, and find none.
2. When any code imports pandas afterwards, pyarrow looks again right after that. There is no value
   of pandas before, so it recognises all of them.
3. It is for processes that are about to do our work: a task of Airflow, a command. A program that
   uses the library is left alone.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import get_ident
from types import ModuleType
from typing import Any

import pyarrow as pa

PANDAS = "pandas"


def import_pandas_later() -> None:
    """Keep pyarrow from importing pandas in this process before other code does."""
    api = getattr(pa.lib, "_pandas_api", None)
    hidden = any(isinstance(each, _Finder) for each in sys.meta_path)
    if hidden or PANDAS in sys.modules or not hasattr(type(api), "pd"):
        return
    finder = _Finder(api)
    sys.meta_path.insert(0, finder)
    pa.array([0])
    finder.hides = False


class _Finder(MetaPathFinder):
    """Hides pandas from the thread that made it, then tells pyarrow of its first import."""

    def __init__(self, api: Any) -> None:
        self.hides = True
        self._api = api
        self._thread = get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Return pandas' own spec, with one more step after its import; None for others."""
        if name != PANDAS:
            return None
        if self.hides and get_ident() == self._thread:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        others = (each for each in sys.meta_path if each is not self)
        found = (each.find_spec(name, path, target) for each in others)
        spec = next((each for each in found if each is not None), None)
        if spec is not None and spec.loader is not None:
            self._tell_after(spec.loader)
        return spec

    def _tell_after(self, loader: Loader) -> None:
        run = loader.exec_module

        def run_and_tell(module: ModuleType) -> None:
            run(module)
            sys.meta_path.remove(self)
            _ = self._api.pd  # pyarrow looks again where it is asked for pandas by name

        loader.exec_module = run_and_tell  # type: ignore[method-assign]
