"""Certificates: making them (pure), loading and reloading them, rotating them."""
