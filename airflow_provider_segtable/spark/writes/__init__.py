"""Writing tables from DataFrames: ingest, streams, changes, rollup."""
