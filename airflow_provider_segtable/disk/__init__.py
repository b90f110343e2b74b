"""Common to the adapters for local disks: folders without links that survive a power cut."""
