"""`grove-admission doctor`: whether an installation can do its work, and what would be refused without it.

One module for each subject; `report` defines what a check is, `examination` puts the checks in order. Nothing is
written: access reviews are questions. README.md lists what is checked.
"""
