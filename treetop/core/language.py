"""Languages: the Snowball stemmers, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treetop.core.errors import choose, missing

LANGUAGES = (
    "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "english", "esperanto", "estonian",
    "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian",
    "nepali", "norwegian", "persian", "polish", "portuguese", "romanian", "russian", "serbian", "sesotho", "spanish",
    "swedish", "tamil", "turkish", "yiddish",
)  # fmt: skip


def stemmer(language: str, setting: str = "stem") -> Callable[[Sequence[str]], list[str]]:
    """A function from words to their stems, one each and never empty; it belongs to one thread.

    >>> stemmer("english")(["libraries", "library", "catalogued"])
    ['librari', 'librari', 'catalogu']
    """
    choose(setting, language, LANGUAGES)
    try:
        import Stemmer
    except ModuleNotFoundError:
        raise missing("PyStemmer", "languages", f"{setting}: {language}") from None
    stem = Stemmer.Stemmer(language, 0).stemWords

    def stems(words: Sequence[str]) -> list[str]:
        return [short or word for short, word in zip(stem(list(words)), words, strict=True)]

    return stems
