"""Decide which MNNVL resources a workload gets, and warn about MNNVL that cannot work."""
