"""The HTTP API of the sandbox, and its discovery."""
