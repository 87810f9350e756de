"""Keep the cluster consistent. Reconcilers run only on the leader.

Each reads the caches, computes the desired state by a rule, and writes what differs.
"""
