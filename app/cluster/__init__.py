"""Cache the facts of one cluster for webhooks and reconcilers, and write its MNNVL resources."""
