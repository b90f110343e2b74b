"""Kinds of plan that only tests know: what a kind needs, and that nothing else has to name it."""
