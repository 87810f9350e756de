"""The admission wire protocol: bytes to request, verdict to response. Knows no resource kind."""
