"""The running process.

It has a listener, endpoints, metrics and logs, and an order of its start and stop.
"""
