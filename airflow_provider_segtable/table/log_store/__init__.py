"""The table's side of a log store: epochs, checkpoints, committed records read from files."""
