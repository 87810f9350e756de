"""Write answers for people, as lines of text, and for programs, as maps."""
