"""Answer questions about one workload, all workloads, queues, the topology, or an edit.

An answer is a value, which `output` writes as text or JSON.
"""
