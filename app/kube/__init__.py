"""A Kubernetes client library: calls, caches and loops.

It knows nothing of Grove, KAI and other systems.
"""
