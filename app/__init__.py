"""grove-admission: admission webhooks and reconcilers for Grove, the KAI Scheduler and NVIDIA
ComputeDomains.
"""

__version__ = "0.7.0"
