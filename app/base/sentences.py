"""Change the first letter of sentences and clauses, so that they can be joined."""


def lower_first(sentence: str) -> str:
    """Return a sentence with a lowercase first letter, so that it can follow another one."""
    return f"{sentence[:1].lower()}{sentence[1:]}"


def upper_first(clause: str) -> str:
    """Return a clause with an uppercase first letter, so that a sentence can begin with it."""
    return f"{clause[:1].upper()}{clause[1:]}"
