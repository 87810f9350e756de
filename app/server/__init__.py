"""Run the server: start and stop its listeners, endpoints, metrics and logs."""
