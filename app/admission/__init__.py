"""The admission protocol: from bytes to a request, and from a verdict to a response.

It knows no rules and no kinds of objects.
"""
