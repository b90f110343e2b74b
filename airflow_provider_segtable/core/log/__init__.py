"""The event log: event types, their JSON, the state they fold into, and commit admission."""
