"""The index of records: facts about records, and which of them win in the whole table."""
