"""Storage options from a connection of Amazon's provider (``aws_conn_id``).

1. The provider's own hook resolves the connection: keys, a role to assume, a profile, a session
   token, a web identity. So a connection means here what it means to Airflow's other operators.
2. Credentials of a role end (after an hour, if the connection says nothing else). A task takes
   them when it starts, and a Spark driver gets them in its environment. For runs that last longer,
   set ``duration_seconds`` in ``assume_role_kwargs``, or let the workers have an instance profile:
   without keys, segtable asks for new ones by itself.
"""

from typing import Any

from airflow_provider_segtable.core.errors import DependencyMissing, InvalidInput
from airflow_provider_segtable.core.secret import redacted


def aws_options(conn_id: str) -> dict[str, str]:
    """Return the storage options that a connection of type ``aws`` means.

    Raises:
        DependencyMissing: the provider is not installed.
        InvalidInput: the connection has no credentials, or the provider cannot get them.
    """
    try:
        from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
    except ModuleNotFoundError as error:
        raise DependencyMissing(
            f"aws_conn_id {conn_id!r} needs apache-airflow-providers-amazon: pip install it, or "
            "give the keys as storage_options"
        ) from error
    return _options_of(AwsBaseHook(aws_conn_id=conn_id, client_type="s3"), conn_id)


def _options_of(hook: Any, conn_id: str) -> dict[str, str]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        session = hook.get_session(region_name=hook.region_name).get_credentials()
        found = session and session.get_frozen_credentials()
    except (BotoCoreError, ClientError) as error:
        raise InvalidInput(
            f"connection {conn_id} gives no credentials: {redacted(str(error))}; check its keys, "
            "its role and its profile"
        ) from None
    if not found:
        raise InvalidInput(
            f"connection {conn_id} has no credentials, and neither has this machine: give it an "
            "access key, a role or a profile"
        )
    endpoint = hook.conn_config.get_service_endpoint_url("s3") or ""
    named = {
        "access_key_id": found.access_key,
        "secret_access_key": found.secret_key,
        "session_token": found.token,
        "region": hook.region_name,
        "endpoint": endpoint,
        "allow_http": "true" if endpoint.startswith("http://") else "",
    }
    return {name: value for name, value in named.items() if value}
