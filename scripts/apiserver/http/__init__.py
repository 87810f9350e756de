"""The HTTP API and discovery."""
