"""Time: instants, intervals, granularities, and the layout of time chunks."""
