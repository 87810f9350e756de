"""Gangs: the pods that must be placed together, and the gangs that an object belongs to."""
