"""The running process: what listens, what it reports, in which order it starts and stops."""
