"""MNNVL resources: their names, their claims, and who owns them."""
