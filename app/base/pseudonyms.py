"""Words that stand for the words of names, so that names can be given to strangers."""

import re
from bisect import bisect
from collections.abc import Collection, Iterable

_WORD = re.compile(r"(?!eyJ)[A-Za-z0-9+/]{200,}=*|\\(?:u[0-9a-f]{4}|.)|([^\W_]+)")
"""A certificate or an escape of JSON, which stay, or a word.

`eyJ` begins JSON in base64: in the token with which a list goes on, this has the name of an object.
"""


class WordPseudonyms:
    """The pseudonyms of the words in some names, the same for the same names.

    They sort as the words do, also among those that stay: numbers, and words that are `kept`.
    """

    def __init__(self, names: Iterable[str], kept: Collection[str]) -> None:
        words = {word for word in words_of(names) if not word.isdigit()}
        width = len(str(len(words)))
        # before all words, and around lowercase letters
        stays = sorted(words.intersection(kept).union(("", "`", "{")))
        pseudonyms = {}
        for number, word in enumerate(sorted(words.difference(kept)), 1):
            place = bisect(stays, word)
            pseudonyms[word] = f"{_between(stays[place - 1], stays[place])}{number:0{width}}"

        self._words = pseudonyms | {word: word for word in kept}
        self._in_lowercase = {word.lower(): other for word, other in pseudonyms.items()}

    def of(self, text: str) -> str:
        """Return a name or a text with pseudonyms, also for words that it has in another case."""
        return _WORD.sub(self._of_word, text)

    def _of_word(self, found: re.Match[str]) -> str:
        word = found[1] or ""
        return self._words.get(word) or self._in_lowercase.get(word.lower(), found[0])


def words_of(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in _WORD.findall(text) if word}


def _between(low: str, high: str) -> str:
    """Return a short text that sorts after `low` and before `high`, with what may follow it."""
    longer = (low[:end] + chr(ord(low[end]) + 1) for end in range(len(low)))
    return next((text for text in longer if text.isalpha() and text < high), f"{low}w")
