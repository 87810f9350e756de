"""Predict the order in which KAI considers pending gangs, and which it places in its next cycle."""
