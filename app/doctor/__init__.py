"""`grove-admission doctor`: whether an installation can do its work, and what would be refused without it.

One module for each thing that is looked at; report says what a check is, examination puts them in order, command is the
command line. Nothing is written: access reviews are questions.
"""
