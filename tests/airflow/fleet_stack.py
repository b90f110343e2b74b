"""A fleet of three tables, one of them broken, with its DAGs; nothing but a commit wakes it."""

from pathlib import Path

from .conftest import Flights, make_flights

PLANNER, MINOR, UPKEEP = (f"segtable_{name}__lake" for name in ("planner", "minor", "upkeep"))
CLICKS, ORDERS, BROKEN = (f"lake/{name}/flights" for name in ("clicks", "orders", "broken"))
FLEET = "[properties]\ncompaction.min_segments = 3\n[groups.all]\ntables = ['lake/*/flights']\n"
FLEET_DAGS = """
from pathlib import Path

from airflow_provider_segtable.dag_factory import fleet_dags

made = fleet_dags(
    Path(__file__).with_name("fleet.toml"), name="lake", schedule="0 0 1 1 *", upkeep=None
)
# The processor notes what watches an asset when it reads a DAG that is not paused.
made.planner.is_paused_upon_creation = False
"""


def make_fleet(flights: Flights, dags: Path) -> None:
    """Make the tables below the connection's root, the fleet file and the DAG file."""
    for name in (CLICKS, ORDERS):
        place = flights.root / name
        make_flights(place.parent, flights.zookeeper, 2)
    timeline = flights.root / BROKEN / "_segtable" / "timeline"
    timeline.mkdir(parents=True)
    (timeline / f"{0:020d}.json").write_text("no event")
    (dags / "fleet.toml").write_text(FLEET)
    (dags / "fleet.py").write_text(FLEET_DAGS)
