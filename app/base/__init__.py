"""Provide JSON, logs, text and other general tools to all packages of `app`.

This package imports no other package of `app`, and contains nothing about Kubernetes.
"""
