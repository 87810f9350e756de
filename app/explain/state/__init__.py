"""Hold the facts of a cluster: a snapshot of the objects that were read, and an index over it.

Only `read` sends requests to a cluster.
"""
