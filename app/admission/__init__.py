"""Speak the admission protocol: turn bytes into a request, and a verdict into a response.

This package knows no rules and no kinds of objects.
"""
