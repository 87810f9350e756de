"""The commands, each in a module with its options, its exit codes and its output.

`app.commands.NAME` has the command `NAME` as COMMAND. Only the module of the command that runs is
imported, because most commands need only some of the libraries.
"""

COMMANDS = {
    "serve": "serve the admission webhooks over HTTPS until SIGTERM",
    "check": "verdicts on files, offline",
    "trial": "what a server in a trial period would have refused, by its log",
    "audit": "what of a live cluster would be refused today",
    "doctor": "whether an installation in a live cluster can do its work",
    "explain": "why a workload waits, and what helps",
    "topology": "levels, what is free where, and what is not a tree",
    "console": "a local, read-only web page with all of these",
    "schema": "print the JSON Schema of what a command prints as JSON",
    "mcp": "answer assistants over the Model Context Protocol",
    "webhooks": "print the two webhook configurations",
    "policies": "print the rules that API servers can evaluate themselves",
    "completion": "print what makes a shell complete commands and options",
    "certs": "make or check certificates",
}
"""Each command, with its line in the help text."""
