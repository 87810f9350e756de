"""Check whether an installation can work, and which requests are rejected during an outage.

Most modules check one or more subjects. `report` defines the result of a check, and `examination`
runs the checks in order. Nothing is stored in the cluster: API servers answer access reviews
without storing them. README.md lists the checks.
"""
