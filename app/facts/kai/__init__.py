"""What is kept of the KAI Scheduler's objects."""
