"""MNNVL resources: their names, claims and owners."""
