"""Speak the admission protocol: turn bytes into a request, and a verdict into a response.

This package has no rules and does not depend on the kinds of objects.
"""
