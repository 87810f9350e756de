"""The running process: its listeners, endpoints, metrics and logs, and their start and stop."""
