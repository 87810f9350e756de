"""List the commands of the program. Each has a module with its options, exit codes and output.

The module `app.commands.NAME` defines the command `NAME` as COMMAND. It is imported only when it is
needed, because most commands need only some of the libraries.
"""

COMMANDS = {
    "serve": "serve the admission webhooks over HTTPS until SIGTERM",
    "check": "print the webhooks' verdicts on files, for example in a CI pipeline",
    "trial": "list what a server in warn-only mode would have rejected, from its log",
    "audit": "list live objects that would be rejected today",
    "doctor": "examine an installation, and say what to repair",
    "explain": "say why a workload is pending, and how to fix it",
    "topology": "show topology levels, free capacity, and inconsistent labels",
    "queues": "show quota, limit and usage of each KAI queue, and its pending gangs",
    "console": "show workloads, topology, queues and findings in a local web page",
    "schema": "print the JSON Schema of a command's JSON output",
    "mcp": "answer AI assistants over the Model Context Protocol",
    "webhooks": "print the two webhook configurations",
    "policies": "print the webhooks' rules as admission policies",
    "completion": "print a script that completes commands and options in your shell",
    "certs": "create or check certificates",
}
"""The description of each command, for the list of commands."""
