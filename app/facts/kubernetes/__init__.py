"""What is kept of Kubernetes' own objects."""
