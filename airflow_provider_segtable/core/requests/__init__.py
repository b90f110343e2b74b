"""Requests of users, checked once: changes of rows, and reads."""
