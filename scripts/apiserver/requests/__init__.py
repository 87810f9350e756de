"""What the API does with each request.

There are reads, writes, tables, and the kinds with rules of their own.
"""
