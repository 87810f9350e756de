"""Handle Kubernetes objects as values: paths, edits, patches, names and conditions, without I/O."""
