"""The cluster as this program sees it; the only home of kubernetes_asyncio. api.py holds the Protocols."""
