"""The segment map: time across, versions and generations up, one rectangle a segment.

1. The *level* of a map is ``segments`` if its window has at most ``limit`` present segments, or is
   one time chunk. Otherwise it is ``chunks``: a cell sums up chunks, and no segment is decoded.
2. *Lanes* stack. For each bucket (one, if the table has none), the versions of a time chunk lie
   above each other, the newest on top. At ``segments`` each version has a lane for each generation.
3. A cell spans its interval across. Inside a time chunk the roots lie side by side, so a compacted
   segment lies above all that it replaced. Widths are by bytes, so area is by bytes.
4. The page, the report and the terminal draw the same shapes (``shapes``).
"""
