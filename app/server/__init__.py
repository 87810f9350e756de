"""The running process: its listener, endpoints, metrics and logs, and the order of its start and
stop.
"""
