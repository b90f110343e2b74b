"""What ``benchmarks/peers.py`` compares: each system in a file, and how they are measured."""
