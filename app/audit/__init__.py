"""Find the objects of a live cluster that would be rejected today or have other problems.

Nothing is written.
"""
