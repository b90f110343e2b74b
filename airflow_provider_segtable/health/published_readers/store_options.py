"""Options of the object store under the names that published readers give them.

deltalake and Polars' Delta reader know the names that segtable's storage has. pyiceberg's file
access and DuckDB have names of their own; only S3's are translated, the others come from the
environment.
"""

from collections.abc import Mapping

from airflow_provider_segtable.health.published_readers.reader import PublishedPlace

_FILEIO = {
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "region": "s3.region",
    "endpoint": "s3.endpoint",
}
_DUCKDB = {
    "access_key_id": "KEY_ID",
    "secret_access_key": "SECRET",
    "session_token": "SESSION_TOKEN",
    "region": "REGION",
}


def fileio_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of S3 under the names of Iceberg's file access."""
    return {_FILEIO[name]: value for name, value in _bare(options).items() if name in _FILEIO}


def duckdb_secret(place: PublishedPlace) -> str:
    """Return the statement that gives DuckDB the options of S3; empty for other stores."""
    if not place.address.startswith(("s3://", "s3a://")):
        return ""
    options = _bare(place.options)
    given = {_DUCKDB[name]: value for name, value in options.items() if name in _DUCKDB}
    endpoint = options.get("endpoint", "")
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        given |= {"ENDPOINT": host, "URL_STYLE": "path", "USE_SSL": str(scheme != "http").lower()}
    escaped = {name: value.replace("'", "''") for name, value in given.items()}
    said = "".join(f", {name} '{value}'" for name, value in escaped.items())
    return f"CREATE SECRET (TYPE s3{said})"


def _bare(options: Mapping[str, str]) -> dict[str, str]:
    """Return options without the prefixes that their names may have."""
    return {
        name.lower().removeprefix("aws_").removesuffix("_url"): value
        for name, value in options.items()
    }
