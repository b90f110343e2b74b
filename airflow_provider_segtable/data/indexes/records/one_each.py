"""Keep one record of each key in a write: the highest, wherever their time chunks are.

Of equal ordering values the later row is higher, as in one file (``data.merge.keyed_rows``). If a
write had records of a key in several time chunks, only their random tokens would decide.
"""

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.keyed.log_files import Records
from airflow_provider_segtable.data.merge.key_groups import codes_of, whole
from airflow_provider_segtable.data.merge.keyed_rows import check_keys
from airflow_provider_segtable.data.merge.merging import key_codes


def one_each(records: Records, rules: MergeRules) -> Records:
    """Return the highest record of each key, in their order.

    Raises:
        InvalidInput: a key is null.
    """
    rows = records.rows
    check_keys(rows, rules.key)
    keys, count = key_codes(rows, rules).rows, rows.num_rows
    values = np.zeros(count, np.uint64)
    if rules.ordering:
        values = codes_of([whole(rows.column(rules.ordering))]).rows
    order = np.lexsort((np.arange(count), values, keys))
    last = np.ones(count, bool)
    last[:-1] = keys[order][1:] != keys[order][:-1]
    kept = np.sort(order[last])
    return Records(rows=rows.take(pa.array(kept)), deleted=records.deleted[kept])
