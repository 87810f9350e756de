"""The fields that are kept of Kubernetes' own objects."""
