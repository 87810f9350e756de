"""Answers for people, as lines of text, and for programs, as maps."""
