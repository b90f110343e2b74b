"""SQL text: conditions and values, in the dialect of Spark."""
