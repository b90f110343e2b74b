"""Command-line input: options, column types, source files."""
