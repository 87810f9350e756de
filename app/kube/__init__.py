"""A Kubernetes client library: calls, caches and loops.

This package contains nothing about Grove, KAI or other systems.
"""
