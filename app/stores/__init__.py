"""Typed stores for rows of `facts/table`, and the ways to fill them."""
