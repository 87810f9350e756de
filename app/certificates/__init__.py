"""Certificates: creation, checks, rotation, serving, and the caBundles of the webhooks."""
