"""pyarrow without pandas, until other code imports it."""

import subprocess
import sys

PROGRAM = """
import sys
from importlib.util import find_spec
import pyarrow as pa
from airflow_provider_segtable.data.pandas_later import import_pandas_later

import_pandas_later()
import_pandas_later()
pa.array([1]), pa.scalar(1)
assert "pandas" not in sys.modules
assert find_spec("pandas").name == "pandas"  # a look is no import
import pandas as pd
assert pa.array(pd.Series([1.5, None])).to_pylist() == [1.5, None]
assert pa.array(pd.Series(pd.to_datetime(["2020-01-01", None]))).null_count == 1
assert pa.table({"a": [1]}).to_pandas().a.tolist() == [1]
import_pandas_later()
assert pa.array(pd.Series([None, 1.5])).to_pylist() == [None, 1.5]
assert not [each for each in sys.meta_path if type(each).__name__ == "_Finder"]
"""


def test_pandas_is_recognised_once_it_is_imported() -> None:
    """Arrays of Python values import no pandas; later its values are read as ever."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], check=True)
