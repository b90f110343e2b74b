"""Files that other programs wrote: what their footers say, and whether a table can adopt them."""
