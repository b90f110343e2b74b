"""Footers of Parquet files, and the descriptors inside them."""
