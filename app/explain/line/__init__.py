"""What KAI does with all that waits in its next cycle: one gang after the other, in its order."""
