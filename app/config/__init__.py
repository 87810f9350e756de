"""The server's configuration file, an OperatorConfiguration."""
