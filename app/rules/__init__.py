"""Check and derive objects by the requirements of Grove, KAI, Kubernetes and this product.

All rules are pure functions, without I/O, clock or logging.
"""
