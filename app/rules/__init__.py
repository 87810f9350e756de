"""The requirements of Grove, KAI, Kubernetes and this product.

They are pure functions without I/O, clock or logging.
"""
