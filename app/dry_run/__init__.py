"""Judge objects as in a dry run. Nothing is ever written."""
