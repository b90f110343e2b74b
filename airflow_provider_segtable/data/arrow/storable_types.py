"""The nearest type that a table stores, for the types of files that people bring.

1. What differs from a stored type only in its form in memory becomes that type: dictionaries and
   runs their values, views text and bytes, extension types what they are stored as.
2. A column without any value (``null``) becomes text.
3. A type that has no near one stays as it is: the table refuses it by name.
"""

import pyarrow as pa

_DIGITS = 38
"""The digits that a decimal of a table has at most."""


def storable(field: "pa.Field[pa.DataType]") -> "pa.Field[pa.DataType]":
    """Return the column with the nearest type that a table stores."""
    return pa.field(field.name, storable_type(field.type), field.nullable)


def storable_type(kind: pa.DataType) -> pa.DataType:
    """Return the nearest type that a table stores; the type itself if there is none."""
    is_ = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return storable_type(kind.storage_type)
    if is_.is_dictionary(kind) or is_.is_run_end_encoded(kind):
        return storable_type(kind.value_type)
    if is_.is_null(kind) or is_.is_string_view(kind):
        return pa.string()
    if is_.is_binary_view(kind):
        return pa.binary()
    if is_.is_decimal(kind) and kind.precision <= _DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    return _nested(kind)


def _nested(kind: pa.DataType) -> pa.DataType:
    is_ = pa.types
    if is_.is_fixed_size_list(kind):
        return pa.list_(storable(kind.value_field), kind.list_size)
    if is_.is_list(kind):
        return pa.list_(storable(kind.value_field))
    if is_.is_large_list(kind):
        return pa.large_list(storable(kind.value_field))
    if is_.is_struct(kind):
        return pa.struct([storable(inside) for inside in kind])
    if is_.is_map(kind):
        return pa.map_(storable_type(kind.key_type), storable_type(kind.item_type))
    return kind
