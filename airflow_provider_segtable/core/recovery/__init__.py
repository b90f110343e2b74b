"""Recovery: findings about a damaged table, and replay of its descriptors."""
