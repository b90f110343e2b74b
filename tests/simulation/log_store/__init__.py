"""The log store beside everybody else: its writers, stores and readers, and what they may see."""
