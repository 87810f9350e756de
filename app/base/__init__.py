"""What everything else stands on, and what knows nothing of Kubernetes or of this product.

JSON, values, groups, text, logs and memory.
"""
