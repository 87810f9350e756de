"""Kubernetes Workloads as KAI PodGroups."""
