"""Verdicts on documents outside any admission request. Nothing is ever written."""
