"""Apache Iceberg: the published table is the metadata in ``_iceberg``."""
