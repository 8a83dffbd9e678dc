"""Which scripts texts are written in, and how many texts are too short to say anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from treetop.core.texts import Texts
from treetop.kernels.text import survey
from treetop.kernels.text.scripts import WITHOUT_SPACES

NOTEWORTHY = 0.01  # share of a script, or of texts with hardly a term, from which it is worth a line


@dataclass(frozen=True)
class Writing:
    """Share of each script among the letters, largest first; texts without any term and with exactly one."""

    texts: int
    scripts: Mapping[str, float]
    without_terms: int
    with_one_term: int

    @property
    def unspaced(self) -> float:
        """The share of letters in scripts that put no blanks between words."""
        return sum(share for name, share in self.scripts.items() if name in WITHOUT_SPACES)

    def sentences(self) -> list[str]:
        """Lines worth saying: scripts other than Latin alone, texts with fewer than two terms."""
        lines = []
        named = {name: share for name, share in self.scripts.items() if share >= NOTEWORTHY}
        if named and set(named) != {"Latin"}:
            lines.append("scripts: " + ", ".join(f"{name} {share:.0%}" for name, share in named.items()))
        if self.without_terms + self.with_one_term > NOTEWORTHY * self.texts:
            counts = [(self.without_terms, "no"), (self.with_one_term, "only one")]
            (n, few), *more = [(count, few) for count, few in counts if count]
            also = "".join(f", and {count:,} {few}" for count, few in more)
            lines.append(f"{n:,} of {self.texts:,} texts have {few} word or character to learn from{also}")
        return lines


def writing(texts: Texts) -> Writing:
    """What texts are written in.

    >>> found = writing(Texts.of(["図書館 library", "x"]))
    >>> found.scripts["Han"], found.without_terms
    (0.2727, 1)
    """
    letters, terms = survey.letters(texts.blob), survey.terms(texts.blob, texts.offsets)
    total = sum(letters.values())
    shares = {name: round(count / total, 4) for name, count in letters.items()}
    return Writing(len(texts), shares, int((terms == 0).sum()), int((terms == 1).sum()))
