"""Thin adapters, one per row of the webhook table.

Each adapter reads facts, calls a rule and returns a verdict.
"""
