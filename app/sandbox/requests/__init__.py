"""What the API does with each request: reads, writes, tables, and the kinds with rules of their
own.
"""
