"""Check whether an installation can work, and what is rejected while its server is down.

There is a module for each subject. `report` has the class of a check, and `examination` the order
of the checks. Nothing is written: the API server answers access reviews without storing them.
README.md lists the checks.
"""
