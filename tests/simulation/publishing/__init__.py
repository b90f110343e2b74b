"""Publishers of other table formats beside everybody who changes the table."""
