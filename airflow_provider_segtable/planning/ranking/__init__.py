"""Which candidates are worth their cost: areas, regions and the selection within a budget."""
