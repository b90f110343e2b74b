"""Credentials of AWS that obstore does not find by itself: profiles and containers.

1. obstore finds keys and web identities in the environment, and asks the instance's metadata
   service. pyarrow, which has the data files, also reads the shared files of profiles
   (``~/.aws/credentials``, ``~/.aws/config``), and asks the container's service without a token
   file. Here the log gets the same credentials, by boto3.
2. Storage options or an environment with keys come first, as with both libraries.
3. boto3 is optional. A profile that the environment names needs it; without boto3, files that
   nobody named are left out.
4. obstore asks again before each request, and boto3 renews: obstore keeps credentials that it
   believes to last for more than five minutes.
"""

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow_provider_segtable.core.errors import DependencyMissing, InvalidName
from airflow_provider_segtable.core.secret import redacted

_PROFILES = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")
_FILES = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}
_CONTAINER, _ITS_TOKEN = (
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
)
_OF_OBSTORE = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE")
_OPTIONS = (
    "access_key_id",
    "skip_signature",
    "metadata_endpoint",
    "web_identity_token_file",
    "container_credentials_full_uri",
    "container_credentials_relative_uri",
)
_ASKED_AGAIN = timedelta(minutes=5)

Provider = Callable[[], Mapping[str, Any]]


def profile_credentials(options: Mapping[str, str]) -> Provider | None:
    """Return credentials for obstore from a profile or a container; None if it finds its own.

    Args:
        options: storage options in small letters, without the prefix of the store.

    Raises:
        DependencyMissing: the environment names a profile, and boto3 is not installed.
    """
    if any(name in options for name in _OPTIONS) or any(os.environ.get(n) for n in _OF_OBSTORE):
        return None
    named = next((os.environ[name] for name in _PROFILES if os.environ.get(name)), None)
    if named is None and not _files_there() and not _by_container():
        return None
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ModuleNotFoundError as error:
        if named is None:
            return None
        raise DependencyMissing(
            f"credentials of the profile {named!r} (AWS_PROFILE) need boto3: pip install boto3, "
            "or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    return _found(boto3, Boto3CredentialProvider)


def _found(boto3: Any, provider: Any) -> Provider | None:
    from botocore.exceptions import BotoCoreError

    try:
        session = boto3.Session()
        if session.get_credentials() is None:
            return None
        made: Provider = provider(session, ttl=_ASKED_AGAIN)
    except BotoCoreError as error:
        raise InvalidName(f"the profile of AWS cannot be read: {redacted(str(error))}") from None
    return made


def _files_there() -> bool:
    return any(Path(os.environ.get(n, at)).expanduser().is_file() for n, at in _FILES.items())


def _by_container() -> bool:
    return bool(os.environ.get(_CONTAINER)) and not os.environ.get(_ITS_TOKEN)
