"""Typed stores for the rows of `facts/rows`, filled by watches, by lists or from documents."""
