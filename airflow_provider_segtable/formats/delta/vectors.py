"""Deletion vectors in Delta's form: a file with all vectors of a version.

1. The file begins with the byte 1. Each vector is its length (4 bytes, big-endian), its data, and
   the CRC-32 of the data.
2. The data are a magic number, the number of bitmaps of 32 bits (one), its number (0), and the
   bitmap in the portable serialization.
3. A descriptor names the file by its UUID in base 85, behind the name of its folder (storage type
   ``u``, the one that all readers take), and the place of the vector in it.
"""

import struct
import zlib
from collections.abc import Mapping
from uuid import UUID

from pyroaring import BitMap

from airflow_provider_segtable.formats.delta.log_files import VECTORS, Json

_MAGIC = 1_681_511_377
_HEAD = struct.calcsize("<IqI")
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def vectors_path(attempt: UUID) -> str:
    """Return the path of a file of vectors."""
    return f"{VECTORS}/deletion_vector_{attempt}.bin"


def encoded_vectors(
    hidden: Mapping[str, BitMap], attempt: UUID
) -> tuple[bytes, Mapping[str, Json]]:
    """Return a file of vectors, and the descriptor of each by the path of its data file.

    Data files without hidden rows have none; the file is empty if no data file has one.
    """
    held = bytearray(b"\x01")
    descriptors: dict[str, Json] = {}
    for path, rows in hidden.items():
        if rows:
            data = struct.pack("<IqI", _MAGIC, 1, 0) + rows.serialize()
            descriptors[path] = {
                "storageType": "u",
                "pathOrInlineDv": VECTORS + _base85(attempt.bytes),
                "offset": len(held),
                "sizeInBytes": len(data),
                "cardinality": len(rows),
            }
            held += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    return (bytes(held) if descriptors else b""), descriptors


def decoded_vector(data: bytes, descriptor: Json) -> BitMap:
    """Return a vector in a file of vectors.

    Raises:
        ValueError: the file does not have it there, or it is broken.
    """
    at, size = int(descriptor["offset"]), int(descriptor["sizeInBytes"])
    end = at + 4 + size
    if data[:1] != b"\x01" or data[at : at + 4] != struct.pack(">I", size):
        raise ValueError(f"no vector of {size} bytes begins at {at}")
    held = data[at + 4 : end]
    if data[end : end + 4] != struct.pack(">I", zlib.crc32(held)):
        raise ValueError(f"the checksum of the vector at {at} differs")
    if held[:_HEAD] != struct.pack("<IqI", _MAGIC, 1, 0):
        raise ValueError(f"the vector at {at} is not one bitmap")
    found = BitMap.deserialize(held[_HEAD:])
    if len(found) != descriptor["cardinality"]:
        raise ValueError(f"the vector at {at} has {len(found)} rows")
    return found


def named_file(descriptor: Json | None) -> str:
    """Return the path of the file that a descriptor names; empty if it is none of ours."""
    if not descriptor or descriptor.get("storageType") != "u":
        return ""
    name = str(descriptor["pathOrInlineDv"])
    if name[:-_WIDTH] != VECTORS or any(each not in _ALPHABET for each in name[-_WIDTH:]):
        return ""
    return vectors_path(UUID(bytes=_from_base85(name[-_WIDTH:])))


_WIDTH = 20
"""Characters of a UUID in base 85."""


def _base85(data: bytes) -> str:
    """Return bytes as text in the alphabet of Z85, five characters for four bytes."""
    text = []
    for (word,) in struct.iter_unpack(">I", data):
        text += [_ALPHABET[word // 85**place % 85] for place in (4, 3, 2, 1, 0)]
    return "".join(text)


def _from_base85(text: str) -> bytes:
    words = (text[at : at + 5] for at in range(0, len(text), 5))
    return b"".join(
        (
            sum(_ALPHABET.index(each) * 85 ** (4 - at) for at, each in enumerate(word)) % 2**32
        ).to_bytes(4, "big")
        for word in words
    )
