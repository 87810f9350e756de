"""A Kubernetes client library: calls, caches and loops.

Independent of the systems that this product runs beside.
"""
