"""Languages: the Snowball stemmers, by name, and the tags that stand for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treetop.core.errors import InputError, choose, did_you_mean, missing

LANGUAGES = (
    "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "english", "esperanto", "estonian",
    "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian",
    "nepali", "norwegian", "persian", "polish", "portuguese", "romanian", "russian", "serbian", "sesotho", "spanish",
    "swedish", "tamil", "turkish", "yiddish",
)  # fmt: skip
TAGS = {
    "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "cs": "czech", "da": "danish", "nl": "dutch",
    "en": "english", "eo": "esperanto", "et": "estonian", "fi": "finnish", "fr": "french", "de": "german",
    "el": "greek", "hi": "hindi", "hu": "hungarian", "id": "indonesian", "ga": "irish", "it": "italian",
    "lt": "lithuanian", "ne": "nepali", "no": "norwegian", "fa": "persian", "pl": "polish", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "sr": "serbian", "st": "sesotho", "es": "spanish", "sv": "swedish",
    "ta": "tamil", "tr": "turkish", "yi": "yiddish", "nb": "norwegian", "nn": "norwegian",
}  # fmt: skip
AUTO = "auto"  # the language that the data set states


def stemmed_language(language: str) -> str:
    """The stemmer for a language that is named or tagged; empty where there is none, InputError for other words.

    >>> stemmed_language("fi"), stemmed_language("Finnish"), stemmed_language("pt-BR"), stemmed_language("ja")
    ('finnish', 'finnish', 'portuguese', '')
    """
    word = language.strip().lower()
    tag = word.replace("_", "-").partition("-")[0]
    if word in ("", *LANGUAGES):
        return word
    if not (tag.isascii() and tag.isalpha() and len(tag) in (2, 3)):
        raise InputError(
            f"language: {language!r} is neither a tag, such as fi or pt-BR, nor a language with a stemmer: "
            f"{', '.join(LANGUAGES)}.{did_you_mean(word, LANGUAGES)}"
        )
    return TAGS.get(tag, "")


def tag_of(language: str) -> str:
    """The tag of a language: "fi" for finnish, "pt" for pt-BR."""
    names = {name: tag for tag, name in reversed(TAGS.items())}
    word = language.strip().lower()
    return names.get(word, word.replace("_", "-").partition("-")[0])


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
