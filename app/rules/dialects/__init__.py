"""Implement the dialects of Grove's topology API: a folder for each, with the same file names."""
