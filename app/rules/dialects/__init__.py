"""Implement the dialects of Grove's topology API, each in a folder.

The folders `bindings` and `design` have the same file names. `epochs` only changes `bindings`.
"""
