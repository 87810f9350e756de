"""Read the objects of the KAI Scheduler."""
