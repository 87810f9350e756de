"""Report in the cluster why gangs are pending, with a condition, events and metrics.

Only the leader writes reports. Only a server with `waiting.enabled` imports this package.
"""
