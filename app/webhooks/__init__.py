"""Thin adapters, one per row of the webhook table: collect facts, call a rule of app.rules, give a verdict."""
