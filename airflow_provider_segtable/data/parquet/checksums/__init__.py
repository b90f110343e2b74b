"""Checksums of data files, and the inspection of a file against them."""
