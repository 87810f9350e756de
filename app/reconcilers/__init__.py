"""Reconcilers, which only the leader runs.

Each reads the stores, calls a rule and writes the difference.
"""
