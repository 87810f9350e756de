"""Report in the cluster why gangs are pending, with a condition, events and metrics.

The leader writes them. Only a server with `waiting.enabled` imports this package.
"""
