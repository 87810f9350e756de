"""The facts of a cluster: a snapshot of what was read, and the index over it.

Only `read` sends requests to a cluster. Everything else is pure.
"""
