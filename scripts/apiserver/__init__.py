"""A local API server for development and demos.

It reaches our webhooks over HTTPS, never by import.
"""
