"""Provide JSON, logs, text and other general tools to all packages of `app`.

This package imports no other one, and does not depend on the rules of Kubernetes.
"""
