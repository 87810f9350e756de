"""Give verdicts on documents outside any admission request. Nothing is ever written."""
