"""Describe this distribution to Airflow's provider manager.

1. Plain data: reading it imports none of the modules it names.
2. Airflow 3.2 and later draw the connection form from ``conn-fields`` here; 3.1 asks the hook.
3. There is no ``plugins`` key: by default Airflow reads only the entry point.
4. The ``config`` section is about the page alone, which has no operator and no table to ask. Any
   other setting is an argument of an operator, a field of the connection, or a property of a table.
5. There are no notifications, task decorators and dialects, because a table sends no messages, a
   task of Python uses the hook, and SQL is another system's.
6. An integration needs a public address (``external-doc-url``) in the registry of Airflow's own
   providers alone; this project has none yet. Its ``tags`` are of that registry's list.
"""

from typing import Any

_INTEGRATION = "Segtable"
_OPERATORS = (
    "operators.change",
    "operators.checkpoint",
    "operators.clean",
    "operators.compact",
    "operators.fleet_plan",
    "operators.fleet_upkeep",
    "operators.index",
    "operators.ingest",
    "operators.overwrite",
    "operators.plan",
    "operators.publish",
    "operators.schedule_index",
    "operators.settle",
    "operators.plans_operator",
    "operators.rendered",
    "operators.spark_operator",
)
_SENSORS = (
    "sensors.index_available",
    "sensors.index_catch_up",
    "sensors.log_store_lag",
    "sensors.objective",
    "sensors.published",
    "sensors.small_segments",
    "sensors.table_sensor",
)
_TRIGGERS = (
    "triggers.commits",
    "triggers.detached",
    "triggers.fleet",
    "triggers.index",
    "triggers.log_store",
    "triggers.published",
    "triggers.table",
    "triggers.watch",
    "triggers.watcher",
)


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, as ``provider_info.schema.json`` has it."""
    return {
        "package-name": "airflow-provider-segtable",
        "name": _INTEGRATION,
        "description": "Compacts data-lake tables on Spark while they are written.",
        "integrations": [{"integration-name": _INTEGRATION, "tags": ["software"]}],
        "hooks": _modules("hooks.segtable"),
        "operators": _modules(*_OPERATORS),
        "sensors": _modules(*_SENSORS),
        "triggers": _modules(*_TRIGGERS),
        "connection-types": [_connection_type()],
        "config": _config(),
        "asset-uris": [
            {
                "schemes": ["segtable"],
                "handler": "airflow_provider_segtable.assets.asset_uri.normalized",
                "to_openlineage_converter": "airflow_provider_segtable.assets.lineage.dataset_of",
            }
        ],
        "extra-links": [
            "airflow_provider_segtable.operators.rendered.SegtableTableLink",
            "airflow_provider_segtable.operators.rendered.SegtablePlannerLink",
        ],
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    modules = [f"airflow_provider_segtable.{name}" for name in names]
    return [{"integration-name": _INTEGRATION, "python-modules": modules}]


def _config() -> dict[str, Any]:
    options = {
        "page_connections": (
            "Connections of type segtable whose tables the page Lake shows, by commas.",
            "segtable_default",
            "segtable_default,segtable_raw",
        ),
        "page_fleet": (
            "Fleet file of the first connection, a path or URI; by default that of SEGTABLE_FLEET.",
            "",
            "/opt/airflow/dags/segtable_fleet.toml",
        ),
    }
    return {
        "segtable": {
            "description": "The page Lake, which shows tables. The API server reads this section.",
            "options": {
                name: {
                    "description": description,
                    "version_added": "0.1.0",
                    "type": "string",
                    "default": default,
                    "example": example,
                }
                for name, (description, default, example) in options.items()
            },
        }
    }


def _connection_type() -> dict[str, Any]:
    return {
        "connection-type": "segtable",
        "hook-class-name": "airflow_provider_segtable.hooks.segtable.SegtableHook",
        "hook-name": _INTEGRATION,
        "ui-field-behaviour": {
            "hidden-fields": ["port", "login", "password", "schema", "extra"],
            "relabeling": {"host": "Root of the tables"},
            "placeholders": {"host": "/data/tables, s3://lake/tables, gs://..., az://..."},
        },
        "conn-fields": _fields(),
    }


def _fields() -> dict[str, Any]:
    return {
        "zookeeper": _field(
            "ZooKeeper",
            "Where writers and compactions lock, as zk://host:2181[,host:2181][/chroot]. If empty,"
            " tables can be read, but not appended to or compacted.",
        ),
        "zookeeper_options": _field(
            "ZooKeeper options",
            'User, password and TLS files as a JSON object, such as {"user": "...",'
            ' "password_file": "..."}.',
            format="password",
        ),
        # Keys of a store are secrets, and the form hides fields of the format password.
        "storage_options": _field(
            "Storage options",
            "Keys, region and endpoint of the object store as a JSON object, such as"
            ' {"region": "...", "access_key_id": "...", "secret_access_key": "..."}.',
            format="password",
        ),
        "aws_conn_id": _field(
            "AWS connection",
            "Id of a connection of type aws that has the keys, the role or the profile for S3,"
            " if the storage options have no keys.",
        ),
        "spark_master": _field(
            "Spark master",
            "Where Spark runs for large work, such as local[*] or spark://host:7077; all cores of"
            " the worker if empty.",
        ),
        "spark_conn_id": _field(
            "Spark connection",
            "Id of a connection of type spark to submit by, instead of the master above.",
        ),
        "log_store_options": _field(
            "Log store options",
            'Token and authorities of log stores as a JSON object, such as {"token": "...",'
            ' "ca": "/path/ca.pem"}.',
            format="password",
        ),
    }


def _field(label: str, description: str, **schema: Any) -> dict[str, Any]:
    return {
        "label": label,
        "description": description,
        "schema": {"type": ["string", "null"], **schema},
    }
