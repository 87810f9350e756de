"""Short texts that stand for a great deal."""

HEAD = "apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\nmetadata: {name: a}\n"
"""Of an object that a webhook looks at, so that all of it is passed on."""

LONG_ALIASES = f"{HEAD}a: &a {'x' * 200_000}\nb: [{', '.join(['*a'] * 1000)}]\n"
"""200 KB for 200 MB of text."""


def laughs(levels: int = 6) -> str:
    """A document of less than 1 KB for almost a million values."""
    lines = [f"{HEAD}a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        count = 7 if level == 5 else 10
        aliases = ", ".join([f"*a{level - 1}"] * count)
        lines.append(f"a{level}: &a{level} [{aliases}]")
    return "\n".join(lines)


MANY_LAUGHS = "\n---\n".join([laughs()] * 40)
"""40 documents of 0.5 KB for 35 million values."""

FEW_LAUGHS = "\n---\n".join([laughs(4)] * 40)
"""Each of the documents is small enough, and all of them together are not."""

MERGED_LAUGHS = (
    laughs()
    .replace("[x, x, x, x, x, x, x, x, x, x]", "{x: x, y: y}")
    .replace("[*", "{<<: [*")
    .replace("]\n", "]}\n")
    + "}"
)
"""The same with merged maps, which PyYAML copies."""

BASE_60 = "a: 1" + ":1" * 1_000_000
"""A number to the base of 60, which costs the square of its length."""
