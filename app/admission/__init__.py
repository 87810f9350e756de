"""The admission wire protocol: bytes to request, verdict to response.

It does not depend on any kind.
"""
