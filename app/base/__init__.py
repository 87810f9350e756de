"""The foundation of all other packages: JSON, values, groups, text, logs and memory.

It imports no other package of `app`, and has no rules of Kubernetes.
"""
