"""What the provider tells Airflow is well-formed, and true."""

import ast
import json
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.providers.common.compat.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.providers_manager import ProvidersManager
from airflow.triggers.base import BaseTrigger

from airflow_provider_segtable.assets.lineage import dataset_name
from airflow_provider_segtable.assets.table_asset import segtable_asset
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.provider_info import get_provider_info
from tests.architecture.tree import PACKAGE

INFO = get_provider_info()
COMPAT = "airflow.providers.common.compat."
KINDS = {
    "hooks": BaseHook,
    "operators": BaseOperator,
    "sensors": BaseSensorOperator,
    "triggers": BaseTrigger,
}


def named_modules() -> Iterator[tuple[str, str]]:
    """Yield each kind with each of its modules."""
    for kind in KINDS:
        for integration in INFO[kind]:
            for module in integration["python-modules"]:
                yield kind, module


@pytest.fixture(scope="module")
def providers() -> ProvidersManager:
    """Return Airflow's own view of what is installed."""
    return ProvidersManager()


def test_it_fits_airflows_schema() -> None:
    """The information is valid by the schema that Airflow itself checks it with."""
    schema = Path(airflow.__file__).parent / "provider_info.schema.json"
    jsonschema.validate(INFO, json.loads(schema.read_text()))


def test_it_fits_the_schema_of_airflows_own_providers() -> None:
    """Each key is one that provider.yaml has there, and holds no more; an address is missing."""
    strict = json.loads((Path(airflow.__file__).parent / "provider.yaml.schema.json").read_text())
    assert INFO.keys() <= strict["properties"].keys()
    known = {**strict, "required": []}
    errors = jsonschema.Draft7Validator(known).iter_errors(INFO)
    assert [error.message for error in errors] == ["'external-doc-url' is a required property"]


def test_names_are_those_of_airflows_guide() -> None:
    """A class ends with its kind; what a DAG file names begins with the provider's name."""
    odd = set()
    for kind, module in named_modules():
        for name, value in vars(import_module(module)).items():
            ours = isinstance(value, type) and value.__module__ == module
            if ours and issubclass(value, KINDS[kind]):
                assert name.endswith(kind.removesuffix("s").capitalize())
                if kind != "triggers" and not name.startswith("Segtable"):
                    odd.add(name)
    bases = {"AssetEventOperator", "TableOperator"}
    assert odd == {"LogStoreLagSensor", *bases}  # the FAQ says why


def test_imports_of_airflow_are_there_since_its_oldest_version() -> None:
    """What common-compat does not give is one of these, which are in Airflow 3.1, too."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow."):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    assert {name for name in found if not name.startswith(COMPAT)} == {
        "airflow.api.common.trigger_dag.trigger_dag",
        "airflow.api_fastapi.auth.managers.models.resource_details.AccessView",
        "airflow.api_fastapi.auth.managers.models.resource_details.DagAccessEntity",
        "airflow.api_fastapi.core_api.security.GetUserDep",
        "airflow.api_fastapi.core_api.security.requires_access_dag",
        "airflow.api_fastapi.core_api.security.requires_access_view",
        "airflow.exceptions.DagRunAlreadyExists",
        "airflow.models.dag.DagModel",
        "airflow.models.dagbag.DBDagBag",
        "airflow.models.dagrun.DagRun",
        "airflow.models.serialized_dag.SerializedDagModel",
        "airflow.models.taskinstance.TaskInstance",
        "airflow.utils.session.create_session",
        "airflow.utils.types.DagRunTriggeredByType",
        "airflow.exceptions.AirflowRescheduleException",
        "airflow.plugins_manager.AirflowPlugin",
        "airflow.providers.amazon.aws.hooks.base_aws.AwsBaseHook",  # where it is installed
        "airflow.providers.openlineage.extractors.OperatorLineage",  # where it is installed
        "airflow.providers.apache.spark.hooks.spark_submit.SparkSubmitHook",
        "airflow.providers.standard.operators.trigger_dagrun.TriggerDagRunOperator",
        "airflow.sdk.Asset",
        "airflow.sdk.AssetOrTimeSchedule",  # since 3.2, like the next two; before, in timetables
        "airflow.sdk.CronTriggerTimetable",
        "airflow.sdk.DeltaTriggerTimetable",
        "airflow.sdk.AssetWatcher",
        "airflow.sdk.DAG",
        "airflow.sdk.Param",
        "airflow.sdk.Variable",
        "airflow.sdk.definitions.deadline.DeadlineAlert",
        "airflow.sdk.exceptions.AirflowRuntimeError",
        "airflow.sdk.execution_time.comms",
        "airflow.sdk.execution_time.comms.TriggerDagRun",
        "airflow.sdk.execution_time.task_runner",
        "airflow.timetables.assets.AssetOrTimeSchedule",
        "airflow.timetables.trigger.CronTriggerTimetable",
        "airflow.timetables.trigger.DeltaTriggerTimetable",
        "airflow.sdk.exceptions.AirflowRescheduleException",  # since 3.2, the first one before
        "airflow.sdk.execution_time.context.InletEventsAccessors",
        "airflow.sdk.log.mask_secret",
        "airflow.triggers.base.BaseTrigger",
        "airflow.triggers.base.TriggerEvent",
    }


def test_airflow_finds_the_provider(providers: ProvidersManager) -> None:
    """Airflow discovers the provider by its entry point, and takes all it says."""
    found = providers.providers["airflow-provider-segtable"].data
    assert {name: found[name] for name in INFO} == INFO


@pytest.mark.parametrize(("kind", "module"), list(named_modules()))
def test_named_modules_hold_what_they_say(kind: str, module: str) -> None:
    """Each named module imports, and defines at least one class of its kind."""
    found = [
        value
        for value in vars(import_module(module)).values()
        if isinstance(value, type) and issubclass(value, KINDS[kind]) and value.__module__ == module
    ]
    assert found


@pytest.mark.parametrize("kind", KINDS)
def test_no_module_is_forgotten(kind: str) -> None:
    """Each module that defines an Airflow class of a kind is named under it."""
    folder = Path(str(import_module(f"airflow_provider_segtable.{kind}").__file__)).parent
    paths = (path.relative_to(folder.parent.parent) for path in folder.rglob("*.py"))
    modules = {".".join(path.with_suffix("").parts) for path in paths if path.stem != "__init__"}
    names = {module for module in modules if defines(KINDS[kind], module)}
    assert names == {module for known, module in named_modules() if known == kind}


def defines(base: type, module: str) -> bool:
    """Tell whether a module defines a class of this kind."""
    return any(
        isinstance(value, type) and issubclass(value, base) and value.__module__ == module
        for value in vars(import_module(module)).values()
    )


def test_every_link_of_an_operator_is_declared() -> None:
    """Airflow refuses links of a DAG whose classes no provider names."""
    used = {
        f"{type(link).__module__}.{type(link).__qualname__}"
        for kind, module in named_modules()
        for value in vars(import_module(module)).values()
        if isinstance(value, type) and issubclass(value, BaseOperator)
        for link in value.operator_extra_links
        if kind == "operators" and type(link).__module__.startswith("airflow_provider_segtable")
    }
    assert used == {*INFO["extra-links"]}


@pytest.mark.parametrize(
    ("location", "dataset"),
    [
        ("s3a://lake/a b/trips", ("s3://lake", "a b/trips")),
        ("gs://lake/trips", ("gs://lake", "trips")),
        ("abfs://c@acc.dfs.core.windows.net/t", ("abfss://c@acc.dfs.core.windows.net", "t")),
        ("/data/tables/trips", ("file", "/data/tables/trips")),
    ],
)
def test_a_table_is_a_dataset_of_its_store(location: str, dataset: tuple[str, str]) -> None:
    """Namespace and name are those that OpenLineage gives objects and files."""
    assert dataset_name(segtable_asset(location).uri) == dataset


def test_airflow_translates_an_asset_for_openlineage() -> None:
    """The converter that Airflow's listener calls makes a dataset of OpenLineage's client."""
    pytest.importorskip("openlineage.client")
    translate = import_module("airflow.providers.openlineage.utils.utils").translate_airflow_asset
    found = translate(segtable_asset("s3://lake/trips"), None)
    assert (found.namespace, found.name) == ("s3://lake", "trips")


def test_every_integration_is_declared() -> None:
    """What hooks, operators, sensors and triggers belong to is in the list of integrations."""
    declared = {integration["integration-name"] for integration in INFO["integrations"]}
    used = {each["integration-name"] for kind in KINDS for each in INFO[kind]}
    assert used <= declared


def test_the_connection_type_is_the_hooks() -> None:
    """The declared connection type, name and class are those of the hook."""
    (declared,) = INFO["connection-types"]
    module, _, name = declared["hook-class-name"].rpartition(".")
    assert getattr(import_module(module), name) is SegtableHook
    assert declared["connection-type"] == SegtableHook.conn_type
    assert declared["hook-name"] == SegtableHook.hook_name


def test_the_form_has_every_field_that_the_hook_reads() -> None:
    """The form's own fields are what the hook reads from a connection's extra, and no other."""
    (declared,) = INFO["connection-types"]
    assert set(declared["conn-fields"]) == set(Place.__dataclass_fields__) - {"conn_id", "root"}


def test_both_forms_agree() -> None:
    """The form of Airflow 3.1, made by the hook, labels the root as the newer one does."""
    (declared,) = INFO["connection-types"]
    old: dict[str, Any] = SegtableHook.get_ui_field_behaviour()
    new = declared["ui-field-behaviour"]
    assert old["relabeling"] == new["relabeling"]
    assert set(old["hidden_fields"]) | {"extra"} == set(new["hidden-fields"])
    assert old["placeholders"]["host"] == new["placeholders"]["host"]


def test_airflow_draws_the_form(providers: ProvidersManager) -> None:
    """The form that Airflow offers for the connection type leads to our hook."""
    known = {
        each.connection_type: each for each in providers.iter_connection_type_hook_ui_metadata()
    }
    assert known["segtable"].hook_class_name == INFO["connection-types"][0]["hook-class-name"]
    assert known["segtable"].field_behaviour["relabeling"] == {"host": "Root of the tables"}


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("console_scripts", "segtable"),
        ("apache_airflow_provider", "provider_info"),
        ("airflow.plugins", "segtable"),
    ],
)
def test_entry_points_lead_somewhere(group: str, name: str) -> None:
    """Each of our entry points can be loaded."""
    (found,) = [
        point
        for point in entry_points(group=group, name=name)
        if point.value.startswith("airflow_provider_segtable")
    ]
    assert callable(found.load())
