"""Recorded cycles of the KAI scheduler with several gangs that wait, and whether explain agrees."""
