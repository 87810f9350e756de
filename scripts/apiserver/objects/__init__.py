"""Kubernetes objects as values: metadata, schemas, patches, selectors and errors."""
