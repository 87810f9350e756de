"""What if nodes went, came or changed: who must move, what breaks, what would start.

Everything is pure: an edit gives other facts, and the rest of `explain` is asked about those.
"""
