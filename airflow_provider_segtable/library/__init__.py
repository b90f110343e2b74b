"""The library's face: ``Table``, which reads, writes and has services carried out."""
