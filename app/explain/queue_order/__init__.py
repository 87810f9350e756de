"""The line: the order in which KAI takes up pending gangs, and what each gets in its next cycle."""
