"""Dialects of Grove's topology API, one folder each, with the same file names."""
