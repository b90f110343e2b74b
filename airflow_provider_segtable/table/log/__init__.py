"""The event log on storage: reading, checkpoints and commits."""
