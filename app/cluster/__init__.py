"""The facts of one cluster, and its MNNVL resources.

The facts are cached, indexed, and read by webhooks and reconcilers.
"""
