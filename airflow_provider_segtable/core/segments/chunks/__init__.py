"""Time chunks, decoded or packed: groups, layers, summaries, and indexes of chunks."""
