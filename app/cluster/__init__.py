"""The facts of one cluster: cached, indexed, and read by webhooks and reconcilers; and its MNNVL
resources.
"""
