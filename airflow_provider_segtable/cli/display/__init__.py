"""Command-line output: facts as JSON values, and tables for people."""
