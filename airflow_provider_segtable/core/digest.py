"""Checksums of small files that are read whole: events, checkpoints, deletion vectors."""

import hashlib


def digest(data: bytes) -> str:
    """Return the first 16 hex digits of SHA-256."""
    return hashlib.sha256(data).hexdigest()[:16]
