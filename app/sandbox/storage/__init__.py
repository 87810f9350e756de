"""Objects in memory, with their history."""
