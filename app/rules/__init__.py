"""The requirements of Grove, KAI, Kubernetes and this product, as pure functions without I/O, clock
or logging.
"""
