"""Chosen texts as HTML: true labels and each model's answers; correct ones have a symbol, not only a colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from treetop.evaluate.report import charts
from treetop.evaluate.report.examples import RARE, Answer, Example, Examples, Truth, most_right
from treetop.evaluate.report.page import section

LONG = 80  # characters of a label's name
TIP = 500  # and of its tooltip
RIGHT = '<span class="sign" role="img" aria-label="right">✓</span>'
WRONG = '<span class="sign" role="img" aria-label="wrong">×</span>'


def texts_section(examples: Examples) -> str:
    """The chosen texts, below a summary of what they represent."""
    several = len(examples.right) > 1
    body = f'<div class="pair">{_stands_for(examples, several)}{_models(examples) if several else ""}</div>'
    body += "".join(_card(example, examples.documents) for example in examples.texts)
    title = "Texts on which the models differ" if several else "Texts from the worst to the best answered"
    return section(title, _rule(examples, several), body, "examples")


def _rule(examples: Examples, several: bool) -> str:
    shown, k = len(examples.texts), examples.k
    start = f"{shown} of {examples.documents:,} texts, chosen by rule and not by hand: "
    if several:
        start += (
            f"those where the numbers of right labels among the first {k} differ most (largest minus smallest model); "
            "among equals those that differ most in right rare labels; where not all of these fit, evenly over the "
            "file. No text appears twice. They show where models differ, not how good these are."
        )
        if examples.steps and not examples.steps[0][0]:
            start += " Here all models have as many right on every text."
    else:
        start += (
            f"texts are put in order by how many of the first {k} labels are right, and taken at even distances, so "
            f"that each stands for about one in {max(shown, 1)}."
        )
    return f"{start} ✓ is a right label, × a wrong one; rare are labels with at most {RARE} training texts."


def _stands_for(examples: Examples, several: bool) -> str:
    what = "Difference in right labels" if several else f"Right labels among the first {examples.k}"
    head = f'<th>{what}</th><th class="barred">Texts in all</th><th class="number">Shown here</th>'
    rows = "".join(
        f"<tr><th>{step}</th>"
        f'<td class="barred"><span>{count:,}</span>{charts.bar(count, examples.documents)}</td>'
        f'<td class="number">{chosen}</td></tr>'
        for step, count, chosen in examples.steps
    )
    return f"<div><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"


def _models(examples: Examples) -> str:
    best = most_right(examples.right)
    head = '<th>Model</th><th class="number">Right per text</th><th class="number">Most right in</th>'
    rows = "".join(
        f'<tr><th>{escape(name)}</th><td class="number">{right.mean():.3f}</td>'
        f'<td class="number">{best[name][1]:,} texts<small>{best[name][0]:,} alone</small></td></tr>'
        for name, right in examples.right.items()
    )
    return f"<div><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"


def _card(example: Example, documents: int) -> str:
    name = f" · {escape(example.id)}" if example.id else ""
    more = f" … <small>{example.left_out:,} characters more</small>" if example.left_out else ""
    text = f"{escape(example.text)}{more}" if example.text else "<small>(no text)</small>"
    true = "".join(_truth(label, len(example.answers)) for label in example.true) or "<li><small>none</small></li>"
    return (
        f"<article>\n<h3>Text {example.row + 1:,} of {documents:,}{name}</h3>\n"
        f'<blockquote dir="auto">{text}</blockquote>\n'
        f'<h4>True labels</h4><ul class="true">{true}</ul>\n'
        f"{_answers(example.answers)}\n</article>"
    )


def _truth(label: Truth, models: int) -> str:
    if models == 1:
        found = "found" if label.found else "not found"
    else:
        found = f"found by {label.found} of {models}"
    return f"<li>{short_name(label.name)}{_tag(label.count)} <small>{found}</small></li>"


def _answers(models: Mapping[str, Sequence[Answer]]) -> str:
    # even rows, so that models given as A B C A' B' C' stand above each other
    wide = {2: " c2", 3: " c3", 4: " c2", 5: " c3", 6: " c3"}.get(len(models), "")
    columns = []
    for name, answers in models.items():
        right = sum(answer.right for answer in answers)
        rows = "".join(_answer(answer) for answer in answers)
        count = f"{right} of {len(answers)} right" if answers else "nothing right"
        body = f"<ol>{rows}</ol>" if answers else "<small>no answer</small>"
        columns.append(f"<div><h4>{escape(name)} <span>{count}</span></h4>{body}</div>")
    return f'<div class="answers{wide}">{"".join(columns)}</div>'


def _answer(answer: Answer) -> str:
    look, sign = ("right", RIGHT) if answer.right else ("wrong", WRONG)
    return f'<li class="{look}">{sign} {short_name(answer.name)}{_tag(answer.count)}</li>'


def short_name(name: str) -> str:
    """A label's name as HTML; a long one is shortened, with the rest of it in a tooltip."""
    if len(name) <= LONG:  # bdi: right-to-left names do not affect the text around them
        return f"<bdi>{escape(name)}</bdi>"
    return f'<bdi title="{escape(name[:TIP])}">{escape(name[:LONG].rsplit(" ", 1)[0])} …</bdi>'


def _tag(count: int | None) -> str:
    if count is None:
        words = "unknown to the model"
    elif count > RARE:
        return ""
    elif count == 0:
        words = "rare: no training text"
    else:
        words = f"rare: {count} training text{'s' if count > 1 else ''}"
    return f' <span class="tag">{words}</span>'
