"""The commands of ``segtable``, one file per command or group."""
