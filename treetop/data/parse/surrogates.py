r"""Halves of UTF-16 surrogate pairs, as JSON can name them ("\ud800"): UTF-8 cannot encode one alone.

In an id or a name one is refused, since two different ids would become the same. In a text it becomes U+FFFD.
"""

from __future__ import annotations


def has_lone(text: str) -> bool:
    r"""Whether UTF-8 cannot encode a string; adjacent halves that form a pair are fine.

    >>> has_lone("a\ud800"), has_lone("\ud83d\ude00"), has_lone("ä")
    (True, False, False)
    """
    if text.isascii() or _is_utf8(text):
        return False
    try:
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return True
    return False


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def without_lone(text: str) -> str:
    """The same string with pairs joined and lone halves replaced by U+FFFD."""
    if text.isascii() or _is_utf8(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole(text: str, what: str) -> str:
    """The same string with pairs joined; ValueError says that a half is left."""
    if has_lone(text):
        raise ValueError(f"{what} {text[:40]!a} has half of a surrogate pair, which UTF-8 cannot hold. Fix it.")
    return without_lone(text)
