"""What Grove, KAI, Kubernetes and this product require. Pure: no I/O, clock, randomness or logging."""
