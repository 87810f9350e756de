"""Judge documents that no API server has sent. Nothing is ever written."""
