"""Admission: authorization, policies and webhooks."""
