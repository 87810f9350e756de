"""Run the server: its listeners, endpoints, metrics and logs, and their start and stop."""
