"""The sandbox: a local API server for development, tests and demonstrations.

It calls our webhooks over HTTPS, and never imports them.
"""
