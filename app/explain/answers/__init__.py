"""Compute answers, as values.

They are about one workload, all workloads, queues, the topology, or an edit of the cluster.
"""
