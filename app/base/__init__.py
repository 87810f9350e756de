"""The foundation of all other packages: JSON, values, groups, text, logs and memory.

It knows nothing about Kubernetes or this product.
"""
