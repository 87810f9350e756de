"""Check topology levels and constraints, also against the labels and GPUs of nodes."""
