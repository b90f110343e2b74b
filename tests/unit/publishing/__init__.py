"""Published versions: how they are put, kept, and followed."""
