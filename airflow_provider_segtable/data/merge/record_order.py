"""Record order as codes: the values of an ordering column and the roots of records, as integers.

1. Codes of one ``RecordOrder`` are comparable with each other, and from 1 on. Equal codes mean
   equal ordering values and one root; the position in the file decides then (``key_groups``).
2. Orders of several registers are coded together if they are compared with each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.data.merge.key_groups import codes_of
from airflow_provider_segtable.data.merge.root_orders import RootOrders
from airflow_provider_segtable.data.sort.sort_keys import Codes, Indices, Numbers, composed


@dataclass(frozen=True, slots=True)
class Order:
    """The order of some records: values (None if their instants alone decide), and roots."""

    values: pa.Array | None
    roots: Indices


def record_codes(orders: Sequence[Order], roots: RootOrders) -> list[Numbers]:
    """Return the codes of several orders, made together; either all have values or none."""
    ranks = roots.ranks_of(np.concatenate([order.roots for order in orders])) + np.uint64(1)
    whole = Codes(ranks, np.zeros(0, np.uint64), len(roots.ranks) + 1)
    values = [order.values for order in orders if order.values is not None]
    if values:
        whole = composed([codes_of([pa.concat_arrays(values)]), whole])
    ends = np.cumsum([len(order.roots) for order in orders])
    return np.split(whole.rows, ends[:-1])
