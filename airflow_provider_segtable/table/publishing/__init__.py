"""Publishing: versions of a table in other table formats, and what their readers need."""
