"""Avro schemas of manifests and of lists of manifests, version 2 of the format.

The ids of fields are those of Iceberg's specification: readers go by them.
"""

from typing import Any

from fastavro import parse_schema

Json = dict[str, Any]


def _optional(name: str, number: int, kind: Any) -> Json:
    return {"name": name, "field-id": number, "type": ["null", kind], "default": None}


def _required(name: str, number: int, kind: Any) -> Json:
    return {"name": name, "field-id": number, "type": kind}


def _by_column(name: str, number: int, key: int, kind: str) -> Json:
    """Return a map from ids of columns, as Avro has it: a list of pairs."""
    fields = [_required("key", key, "int"), _required("value", key + 1, kind)]
    pair = {"type": "record", "name": f"k{key}_v{key + 1}", "fields": fields}
    return _optional(name, number, {"type": "array", "items": pair, "logicalType": "map"})


def _list(name: str, number: int, element: int) -> Json:
    return _optional(name, number, {"type": "array", "element-id": element, "items": "long"})


def entry_schema(partition: list[Json]) -> Any:
    """Return the schema of a manifest's entries, with the fields of its partitions."""
    data_file = [
        _required("content", 134, "int"),
        _required("file_path", 100, "string"),
        _required("file_format", 101, "string"),
        _required("partition", 102, {"type": "record", "name": "r102", "fields": partition}),
        _required("record_count", 103, "long"),
        _required("file_size_in_bytes", 104, "long"),
        _by_column("column_sizes", 108, 117, "long"),
        _by_column("value_counts", 109, 119, "long"),
        _by_column("null_value_counts", 110, 121, "long"),
        _by_column("nan_value_counts", 137, 138, "long"),
        _by_column("lower_bounds", 125, 126, "bytes"),
        _by_column("upper_bounds", 128, 129, "bytes"),
        _optional("key_metadata", 131, "bytes"),
        _list("split_offsets", 132, 133),
        _list("equality_ids", 135, 136),
        _optional("sort_order_id", 140, "int"),
        _optional("referenced_data_file", 143, "string"),
    ]
    fields = [
        _required("status", 0, "int"),
        _optional("snapshot_id", 1, "long"),
        _optional("sequence_number", 3, "long"),
        _optional("file_sequence_number", 4, "long"),
        _required("data_file", 2, {"type": "record", "name": "r2", "fields": data_file}),
    ]
    return parse_schema({"type": "record", "name": "manifest_entry", "fields": fields})


def _manifest_schema() -> Any:
    summary = [
        _required("contains_null", 509, "boolean"),
        _optional("contains_nan", 518, "boolean"),
        _optional("lower_bound", 510, "bytes"),
        _optional("upper_bound", 511, "bytes"),
    ]
    partitions = {"type": "record", "name": "r508", "fields": summary}
    counts = ("added", "existing", "deleted")
    fields = [
        _required("manifest_path", 500, "string"),
        _required("manifest_length", 501, "long"),
        _required("partition_spec_id", 502, "int"),
        _required("content", 517, "int"),
        _required("sequence_number", 515, "long"),
        _required("min_sequence_number", 516, "long"),
        _required("added_snapshot_id", 503, "long"),
        *(_required(f"{name}_files_count", 504 + at, "int") for at, name in enumerate(counts)),
        *(_required(f"{name}_rows_count", 512 + at, "long") for at, name in enumerate(counts)),
        _optional("partitions", 507, {"type": "array", "element-id": 508, "items": partitions}),
        _optional("key_metadata", 519, "bytes"),
    ]
    return parse_schema({"type": "record", "name": "manifest_file", "fields": fields})


MANIFEST: Any = _manifest_schema()
"""The schema of a list of manifests."""
PATHS: Any = parse_schema(
    {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int"},
            {
                "name": "data_file",
                "type": {
                    "type": "record",
                    "name": "r2",
                    "fields": [
                        {"name": "file_path", "type": "string"},
                        {
                            "name": "referenced_data_file",
                            "type": ["null", "string"],
                            "default": None,
                        },
                    ],
                },
            },
        ],
    }
)
"""What loading reads of an entry."""
