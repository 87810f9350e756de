"""Kubernetes Workloads to KAI PodGroups, on both API servers, in each dialect that they serve."""
