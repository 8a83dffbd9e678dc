"""`treetop explain`: why these labels, in words; or which labels co-occur with a label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treetop.cli.data import Device
from treetop.cli.reading import DataOptions, reads_data
from treetop.cli.streams import as_text, confirm, echo, json_line
from treetop.core.errors import ConfigError, InputError, visible

if TYPE_CHECKING:
    from treetop.core.dataset import Dataset
    from treetop.explain.explanation import Explanation, Joined, Step, Vocabulary
    from treetop.explain.explanation import Text as TrainingText
    from treetop.model import Model

SHOWN = 6
BAR = 24  # letters of a whole bar
NAME = 40  # letters of a name beside others
NEAR = 3  # similar labels, and labels of a training text, that are named
NEAREST = 5  # training texts that are shown
LINE = 100  # letters of a training text
LAYERS = "Look at shortlists and encoder layers instead, by texts of this data."
FAINT, STRONG = 0.1, 0.5  # of the largest contribution: below, a word has no colour; above, it is bold
AVERAGES = ("average", "rank_average", "softmax_average")


@reads_data
def explain(
    model: Annotated[Path, typer.Argument(help="Model folder.")],
    text: Annotated[
        str | None, typer.Option(help="The text to explain; - reads it from standard input.", callback=as_text)
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Draw the neighbours of this label (id or name) instead.", callback=as_text)
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="With --label: the training data in which neighbours are counted.")
    ] = None,
    layers: Annotated[str | None, typer.Option(metavar="DATA", help=LAYERS)] = None,
    against: Annotated[str, typer.Option(help="With --layers: an encoder or model to compare the encoder with.")] = "",
    split: Annotated[str, typer.Option(help="With --layers: split of the data.")] = "test",
    sample: Annotated[int, typer.Option(min=2, help="With --layers: texts that are read, drawn at random.")] = 1000,
    report: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="With --layers: folder for an HTML page of the curves.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Labels to explain (3), or neighbours to draw (10).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
    *,
    reading: DataOptions,
) -> None:
    """Show which words led to each label, on every level of the tree; their contributions add up to the margin.

    Words in favour of a label are green, words against it red. docs/explain.md describes the JSON.

    With --label: the labels that co-occur with a label, as `gandalf` uses them. With --layers: how many labels of
    a data set every shortlist holds, and what the encoder's first token attends to on every layer.
    """
    if [text, label, layers].count(None) != 2:
        raise ConfigError("explain: give either --text, --label or --layers.")
    if layers is not None:
        _look_inside(model, reading.source(layers).read(split), against, sample, report, as_json)
        return
    if text is None and data is None:
        raise ConfigError("--data: missing. Name the training data, in which the neighbours of a label are counted.")
    from treetop.model import load

    opened = load(model, device=device)
    if label is not None:
        _neighbours(opened, label, reading.source(str(data)).read(), k or 10, as_json)
        return
    if text == "-":
        from treetop.data.inputs import whole_input

        text = whole_input()
    explanations = opened.explain(str(text), k or 3)
    if as_json:
        echo(json_line([item.to_dict() for item in explanations]))
        return
    from rich.console import Console

    console = Console(highlight=False)
    for item in explanations:
        _show(console, item, str(text))
        console.print()
    if opened.documents is not None:
        _show_nearest(console, opened, str(text))


def _look_inside(folder: Path, dataset: Dataset, against: str, sample: int, report: Path | None, as_json: bool) -> None:
    """Recall of shortlists and figures of encoder layers, as JSON, as a table, and as a page."""
    from treetop.evaluate.report.layers import page, table
    from treetop.evaluate.report.page import check_folder, write
    from treetop.model import load
    from treetop.model.layers import look_inside

    if report is not None:
        check_folder(report)
    found = look_inside(load(folder), dataset, against=against, sample=sample)
    if report is not None:
        written = write(report, page(f"{folder.name}: shortlists and layers", found))
        if not as_json:
            confirm(str(written))
    if as_json:
        echo(json_line(found))
    elif report is None:
        for line in table(found):
            echo(line)


def _title(id_: str, name: str) -> str:
    """A label for display: its id, and its name if it differs."""
    return visible(id_ if name == id_ else f"{id_}  {name}")


def _brief(name: str) -> str:
    """The beginning of a name."""
    return visible(name if len(name) <= NAME else name[: NAME - 1].rstrip() + "…")


def _show(console: Any, item: Explanation, text: str) -> None:
    """One label: its score, the text with its words marked, how members were joined, and the way through each."""
    from rich.text import Text

    sure = "" if item.probability is None else f" (probability {item.probability:.3f})"
    console.print(f"[bold]{item.score:.3f}[/bold]{sure}  ", end="")
    console.print(_title(item.id, item.label), markup=False)
    if item.words and console.color_system is not None:  # without colours the words below say it all
        console.print(_marked(text, item))
    if item.joined is not None:
        _show_joined(console, item.joined)
    for m, way in enumerate(item.members):
        if len(item.members) > 1:
            place = "not returned" if way.place is None else f"place {way.place}, score {way.score:.3f}"
            merged = "" if way.label == item.id else f", as {visible(way.label)}"
            console.print(f"  member {m + 1} ({visible(way.recipe)}, {100 * way.weight:.3g} %): {place}{merged}")
        for step in way.steps:
            console.print(_line(step, last=step is way.steps[-1]))
    dim = [f"{item.count:,} training texts"] if item.members[0].steps[-1].method == "count" else []
    if item.texts:
        near = ", ".join(_near(t) for t in item.texts)
        dim.append(f"nearest training texts with it: {near}")
    if item.neighbours:
        dim.append(f"labels like it: {'; '.join(_brief(n.label) for n in item.neighbours[:NEAR])}")
    if item.vocabulary is not None:
        dim.append(_in_vocabulary(item.vocabulary))
    for line in dim:
        console.print(Text(f"  {line}", style="dim"))


def _in_vocabulary(known: Vocabulary) -> str:
    """Other names of a label and its relations, those there are."""
    of = {
        "also called": known.alt,
        "broader": [one.label for one in known.broader],
        "related": [one.label for one in known.related],
    }
    said = [f"{what}: {'; '.join(map(_brief, names[:NEAR]))}" for what, names in of.items() if names]
    return ", ".join(said)


def _near(near: TrainingText) -> str:
    """A training text: its number in the data, how near it is, and its beginning where the model keeps it."""
    return f"row {near.row + 1} ({near.similarity:.2f})" + ("" if near.text is None else f" {_brief(near.text)}")


def _show_nearest(console: Any, model: Model, text: str) -> None:
    """The nearest training texts of all, with their labels."""
    from rich.text import Text

    console.print("nearest training texts", style="bold")
    for near in model.nearest(text, NEAREST):
        line = Text(f"  {near.similarity:.2f}  ")
        line.append(visible(near.text if len(near.text) <= LINE else near.text[: LINE - 1].rstrip() + "…"))
        names = "; ".join(_brief(model.labels.names[model.labels.columns[id_]]) for id_ in near.labels[:NEAR])
        line.append(f"  [{names}{'; …' if len(near.labels) > NEAR else ''}]", style="dim")
        console.print(line)


def _marked(text: str, item: Explanation) -> Any:
    """The text, its words coloured by what they add to the label's margin."""
    from rich.text import Text

    from treetop.explain.words import marked

    line, pieces = Text("  "), marked(text, item.words)
    most = max((abs(amount) for _, amount in pieces), default=0.0)
    for piece, amount in pieces:
        size = abs(amount) / most if most else 0.0
        strong = "bold " if size > STRONG else ""
        style = (strong + ("green" if amount > 0 else "red")) if size > FAINT else ""
        line.append(visible(piece), style=style)
    return line


def _show_joined(console: Any, joined: Joined) -> None:
    from rich.text import Text

    fused = joined.how not in AVERAGES
    unit = "log odds" if fused else "score"
    line = Text(f"  {joined.how}: {unit} {joined.total:+.2f} = " if joined.exact else f"  {joined.how}: {unit} ", "dim")
    if not joined.exact:
        line.append(f"{joined.total:+.2f}; without a source it would differ by ", style="dim")
    for source in joined.sources:
        line.append(f"{visible(source.recipe)} ")
        line.append(f"{source.part:+.2f}  ", style="green" if source.part > 0 else "red")
    if fused and joined.exact:
        line.append(f"frequency and bias {joined.base:+.2f}", style="dim")
    console.print(line)


def _line(step: Step, *, last: bool) -> Any:
    from rich.text import Text

    name = "label" if last else f"node {step.node}"
    below = "" if last or not step.names else f" ({', '.join(map(_brief, step.names))})"
    margin = "" if step.margin is None else f"margin {step.margin:+.2f}, "
    line = Text(f"  {name}{below}: {margin}score {step.own:.3f}, of the path {step.score:.3f}: ", style="dim")
    for word in step.words[:SHOWN]:
        line.append(f"{_term(word.term)} ")
        line.append(f"{word.contribution:+.2f}  ", style="green" if word.contribution > 0 else "red")
    rest = len(step.words) - SHOWN
    line.append((f"and {rest} more, " if rest > 0 else ""), style="dim")
    if step.parts:
        line.append(", ".join(f"{name} {part:+.2f}" for name, part in step.parts.items()) + "; ", style="dim")
    line.append("no words known" if step.base is None else f"without words {step.base:+.2f}", style="dim")
    return line


def _term(term: str) -> str:
    """A word, or a character n-gram with marks for the blanks at the edges of its word.

    >>> _term("domestic cat"), _term(" cat"), _term("at ")
    ('domestic cat', '_cat', 'at_')
    """
    before, after = len(term) - len(term.lstrip(" ")), len(term) - len(term.rstrip(" "))
    return "_" * before + visible(term.strip(" ")) + "_" * after


def _neighbours(model: Model, key: str, given: Dataset, k: int, as_json: bool) -> None:
    """Labels that share texts with one, as bars: the share of its texts, and of theirs."""
    from treetop.labels.graph import counted, neighbours

    column = model.labels.find(key)
    if model.labels.ids[column] not in given.labels.columns:
        raise InputError(
            f"{given.name}: has no label '{model.labels.ids[column]}'. Give the data the model was trained on."
        )
    dataset = given.align(model.labels)
    Y, labels = counted(dataset), dataset.labels
    near, texts = neighbours(Y, column, k), int(Y[:, [column]].nnz)
    if as_json:
        rows = [
            {
                "id": labels.ids[n.column],
                "label": labels.names[n.column],
                "texts": n.texts,
                "share": n.share,
                "back": n.back,
            }
            for n in near
        ]
        whole = {"id": labels.ids[column], "label": labels.names[column], "texts": texts, "neighbours": rows}
        echo(json_line(whole))
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(f"{_title(labels.ids[column], labels.names[column])}: {_texts(texts)}", style="bold", markup=False)
    for n in near:
        bar = "█" * max(1, round(BAR * n.share))
        console.print(f"  {n.share:.2f} {bar:<{BAR}} ", style="green", end="")
        title = _title(labels.ids[n.column], labels.names[n.column])
        console.print(f"{title}  ({_texts(n.texts)}, {n.back:.2f} of its own)", markup=False)
    if not near:
        console.print("  shares no text with another label")


def _texts(count: int) -> str:
    return "1 text" if count == 1 else f"{count:,} texts"
