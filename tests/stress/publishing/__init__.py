"""Publishers, writers and readers of a published table as real processes, under kills."""
