"""Delta Lake: the published table is the log in ``_delta_log``."""
