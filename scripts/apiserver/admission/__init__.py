"""The admission chain: webhooks and authorization."""
