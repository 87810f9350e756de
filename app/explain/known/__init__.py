"""What was read of a cluster, and how it is found: a snapshot, and the index over it.

Only `read` asks a cluster for it; everything else is pure.
"""
