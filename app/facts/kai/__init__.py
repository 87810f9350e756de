"""The fields that are kept of the KAI Scheduler's objects."""
