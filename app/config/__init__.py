"""Read the server's configuration file, an OperatorConfiguration."""
