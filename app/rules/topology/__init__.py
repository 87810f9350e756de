"""Check topology levels and constraints, alone and against the labels and GPUs of nodes."""
