"""`grove-admission audit`: what of a live cluster would be refused today, and why. Nothing is written.

auditor reads and judges, finding and remedy say what came of it, progress how far it is, command is the command line.
"""
