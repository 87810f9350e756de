"""What people ask, and the answers as values: of one workload, of all, and of the topology."""
