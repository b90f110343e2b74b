"""``segtable spark-app``: where the Spark applications are, for ``spark-submit``."""

from typing import Annotated

import typer

from airflow_provider_segtable.spark.driver.session import spark_app_path


def spark_app(
    name: Annotated[
        str, typer.Argument(help="compact, ingest or change.", metavar="NAME", show_default=False)
    ],
) -> None:
    r"""Print the path of a Spark application, for spark-submit.

    [green]spark-submit $(segtable spark-app compact) --table s3://lake/trips \
        --zookeeper zk://host:2181 --all-pending[/]

    Each application has --help.
    """
    typer.echo(spark_app_path(name))
