"""Says in the cluster why gangs wait: a condition, an event and metrics, by the leader.

Only a server with `waiting.enabled` imports this package.
"""
