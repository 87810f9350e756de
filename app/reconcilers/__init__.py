"""Keep the cluster consistent. Reconcilers run only on the leader.

Most of them read the caches, compute the desired state by a rule, and write the differences. A
ClusterError ends a step, and `kube/loop` repeats the step later.
"""
