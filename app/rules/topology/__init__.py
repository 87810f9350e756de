"""Topology levels and constraints."""
