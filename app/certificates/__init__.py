"""Create, check, rotate and serve certificates, and publish their CAs to the webhooks."""
