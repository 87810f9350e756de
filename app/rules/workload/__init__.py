"""Derive KAI PodGroups from the groups of Kubernetes Workloads."""
