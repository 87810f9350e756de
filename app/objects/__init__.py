"""A Kubernetes object as a value: paths, edits, patches, names, conditions. Pure: no I/O."""
