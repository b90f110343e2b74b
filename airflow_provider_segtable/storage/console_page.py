"""The page of a folder in its object store's own console."""

from collections.abc import Mapping
from urllib.parse import quote, urlsplit


def console_page(uri: str, options: Mapping[str, str]) -> str:
    """Return the address of the page that lists a folder; empty where none is known.

    Args:
        uri: the folder: ``s3://bucket/path``, ``gs://bucket/path``.
        options: storage options; a store with an endpoint of its own has another console.
    """
    if any("endpoint" in name.lower() or "base_url" in name.lower() for name in options):
        return ""
    parts = urlsplit(uri)
    bucket, path = quote(parts.netloc), parts.path.strip("/")
    match parts.scheme:
        case "s3" | "s3a":
            prefix = quote(f"{path}/", safe="")
            return f"https://console.aws.amazon.com/s3/buckets/{bucket}?prefix={prefix}"
        case "gs":
            return f"https://console.cloud.google.com/storage/browser/{bucket}/{quote(path)}"
    return ""
