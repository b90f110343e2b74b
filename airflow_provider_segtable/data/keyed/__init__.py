"""Primary-key tables as files: their names and roots, and the jobs that merge them."""
