"""Preview edits of the cluster: which gangs must move, which break, and which would start.

Everything is pure. An edit gives other facts, and the rest of `explain` works on those.
"""
