"""Find the objects of a live cluster that would be rejected today, and say why.

Nothing is written.
"""
