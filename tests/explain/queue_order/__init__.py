"""What KAI does with all that waits."""
