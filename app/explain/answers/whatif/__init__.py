"""Preview edits of the cluster: which gangs must move, which break, and which would start.

All functions are pure. An edit produces changed facts, which the rest of `explain` reads like the
facts of a cluster.
"""
