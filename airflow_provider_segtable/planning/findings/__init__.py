"""What is wrong with the operation of a table."""
