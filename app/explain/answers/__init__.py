"""The answers to questions as values: about one workload, all workloads, queues, the topology, or
an edit.
"""
