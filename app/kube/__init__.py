"""A Kubernetes client library: calls, caches and loops.

It knows nothing about Grove, KAI and other systems.
"""
