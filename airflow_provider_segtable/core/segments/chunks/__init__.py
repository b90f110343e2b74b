"""Time chunks: their groups, layers and summaries, decoded or packed, and the indexes that hold them."""
