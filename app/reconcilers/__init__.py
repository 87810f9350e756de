"""Reconcilers, which run only on the leader.

Each reads the caches, computes the desired state by a rule, and writes the difference.
"""
