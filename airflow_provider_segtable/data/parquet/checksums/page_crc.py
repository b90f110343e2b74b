"""CRC-32 by ISA-L if it is installed (extra ``fast``), five times as fast as zlib's."""

try:
    from isal.isal_zlib import crc32
except ImportError:  # no wheel for this machine, or a bare executor: same values, but slower
    from zlib import crc32

__all__ = ["crc32"]
