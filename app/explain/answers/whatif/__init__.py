"""Preview edits of the cluster: which gangs must move, which break, and which would start.

Nothing is read or written. An edit produces changed facts, which the rest of `explain` uses like
the facts of a cluster.
"""
