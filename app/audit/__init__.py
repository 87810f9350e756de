"""`grove-admission audit`: which objects of a live cluster would be rejected today, and why.

Nothing is written.
"""
