"""Report in the cluster why gangs are pending: a condition, events and metrics, written by the
leader.

Only a server with `waiting.enabled` imports this package.
"""
