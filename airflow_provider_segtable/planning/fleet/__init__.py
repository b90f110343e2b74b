"""A fleet: many tables that one planner serves, described by one file."""
