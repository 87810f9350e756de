"""Read the objects of Kubernetes itself, of its storage and device APIs, and of Kueue."""
