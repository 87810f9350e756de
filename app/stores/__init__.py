"""Typed stores for the rows of `facts/table`, filled by watches, by lists or from documents."""
