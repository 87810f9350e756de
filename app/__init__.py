"""The admission webhooks and reconcilers of grove-admission.

They are for clusters that run Grove, the KAI Scheduler and NVIDIA ComputeDomains.
"""

__version__ = "0.10.0"
