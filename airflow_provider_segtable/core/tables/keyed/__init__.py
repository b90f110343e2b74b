"""Primary-key tables: how rows of equal keys become one."""
