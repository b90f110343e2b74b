"""stub."""


class Airflow: ...
