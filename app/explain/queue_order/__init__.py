"""Predict KAI's order of the pending gangs, and which of them KAI places in its next cycle."""
