"""What the adapters for local disks share: folders that hold no links and survive a power cut."""
