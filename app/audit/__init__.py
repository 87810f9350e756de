"""`grove-admission audit`: the objects of a live cluster that would be rejected today, and why.

Nothing is written.
"""
