"""What publishing reads in data files: statistics in footers, positions of hidden rows."""
