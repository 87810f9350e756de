"""The OperatorConfiguration."""
