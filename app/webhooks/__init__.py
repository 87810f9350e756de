"""Thin adapters, one per row of the webhook table.

Each reads facts, calls a rule and returns a verdict.
"""
