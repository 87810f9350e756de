"""Recorded decisions of the KAI scheduler, and whether explain agrees with them."""
