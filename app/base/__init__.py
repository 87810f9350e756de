"""The foundation of all other packages: JSON, values, groups, text, logs and memory.

This package imports no other package of `app`, and does not depend on the rules of Kubernetes.
"""
