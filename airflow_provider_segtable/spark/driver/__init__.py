"""The Spark driver: sessions, applications, jobs in tasks, and their failures."""
