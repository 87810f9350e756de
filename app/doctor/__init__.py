"""The command `grove-admission doctor`.

It says whether an installation can work, and what would be rejected without it.

There is a module for each subject. `report` has the class of a check, and `examination` the order
of the checks. Nothing is written: the API server answers access reviews without storing them.
README.md lists the checks.
"""
