"""Commands on tables: create, describe, alter, restore and drop."""
