"""Rows: Parquet files written, merged and read. Arrow in, Arrow out.

Runs on Spark executors, so nothing here needs more than Python, pyarrow and this package.
"""
