"""The commands of ``segtable``, one file a command or group."""
