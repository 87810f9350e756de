"""Reasons why a gang is pending or not placed as requested: one function each, by topic."""
