"""The files of docker/: what can be said of them without an engine."""
