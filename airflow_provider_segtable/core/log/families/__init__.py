"""Event families: types, JSON, fold and admission of each, in one file."""
