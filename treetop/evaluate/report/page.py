"""The style of a report: one self-contained HTML page with light and dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from treetop.core.errors import ConfigError
from treetop.core.target import check_outside, model_at, replacing_file
from treetop.core.version import VERSION

SIGNED = "Written by treetop "  # how every footer begins
FOOTER = f"{SIGNED}{VERSION}. Formulas and conventions: docs/metrics.md."

STYLE = """
:root { color-scheme: light dark;
  --paper: #f7f8f5; --sheet: #ffffff; --ink: #1b221e; --soft: #5d6a62; --line: #e2e7e1; --track: #e9eee8;
  --accent: #1e7a4c; --spread: #0d3d26; --s0: #1e7a4c; --s1: #2c66c4; --s2: #c2620e; --s3: #8a44b5; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #101512; --sheet: #18201b; --ink: #e6ede8; --soft: #94a39a; --line: #2a352e; --track: #263029;
  --accent: #4fc487; --spread: #d5f5e3; --s0: #4fc487; --s1: #78a9ff; --s2: #f2a35e; --s3: #c792ea; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5; font-size: 15px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main, header, footer { max-width: 1040px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 44px; padding-bottom: 8px; }
.mark { display: flex; align-items: center; gap: 8px; color: var(--accent); font-weight: 650; letter-spacing: .01em; }
.mark svg { width: 22px; height: 22px; fill: currentColor; }
h1 { font-size: 32px; line-height: 1.2; margin: 14px 0 6px; letter-spacing: -.015em; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 0 0 4px; letter-spacing: -.005em; }
h3 { font-size: 14px; margin: 0 0 8px; color: var(--soft); font-weight: 600; }
.lead, .note { color: var(--soft); margin: 0 0 18px; max-width: 82ch; }
.note { font-size: 13.5px; }
section { background: var(--sheet); border: 1px solid var(--line); border-radius: 14px; padding: 24px 26px;
  margin: 18px 0; overflow-x: auto; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(146px, 1fr)); gap: 14px; margin: 22px 0 4px; }
.tile { background: var(--sheet); border: 1px solid var(--line); border-radius: 14px; padding: 14px 16px 16px; }
.tile b { display: block; font-size: 29px; line-height: 1.2; letter-spacing: -.02em; }
.tile span { color: var(--soft); font-size: 13px; }
.tile .gauge { margin-top: 9px; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(210px, 1fr)); gap: 14px 24px; margin: 14px 0 0; }
dt { color: var(--soft); font-size: 13px; } dd { margin: 0; font-weight: 550; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 8px 14px 8px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td, tr:last-child th { border-bottom: 0; }
thead th { color: var(--soft); font-weight: 600; font-size: 13px; white-space: nowrap; }
tbody th { font-weight: 600; overflow-wrap: anywhere; min-width: 96px; }
.number { text-align: right; white-space: nowrap; }
small { display: block; color: var(--soft); font-size: 12.5px; font-weight: 400; }
tbody.group + tbody.group tr:first-child > * { border-top: 2px solid var(--line); }
.barred { min-width: 150px; padding-left: 14px; } .barred span { display: inline-block; min-width: 52px; }
.bar, .gauge { height: 8px; border-radius: 4px; overflow: hidden; }
.bar { width: calc(100% - 62px); min-width: 70px; vertical-align: 1px; }
.stacked { min-width: 84px; } .stacked .bar { display: block; width: 100%; min-width: 0; margin-top: 3px; }
.wide { min-width: 150px; } .gauge { width: 100%; height: 6px; display: block; }
.track { fill: var(--track); } .fill { fill: var(--accent); } .spread { fill: var(--spread); opacity: .5; }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(400px, 1fr)); gap: 12px 44px; }
.chart { width: 100%; min-width: 560px; height: auto; margin-top: 6px; }
.chart text { font-size: 13.5px; fill: var(--soft); font-family: inherit; } .grid { stroke: var(--line); }
.line { fill: none; stroke-width: 2.4; stroke-linejoin: round; } .chart .end { font-weight: 600; }
.chart .end tspan { font-weight: 400; }
.line.s0 { stroke: var(--s0); } .line.s1 { stroke: var(--s1); }
.line.s2 { stroke: var(--s2); } .line.s3 { stroke: var(--s3); }
.dot.s0, .chart .end.s0 { fill: var(--s0); } .dot.s1, .chart .end.s1 { fill: var(--s1); }
.dot.s2, .chart .end.s2 { fill: var(--s2); } .dot.s3, .chart .end.s3 { fill: var(--s3); }
.line.dashed { stroke: var(--soft); stroke-width: 1.4; stroke-dasharray: 3 5; } .dot.dashed { fill: transparent; }
.plane { width: 100%; max-width: 440px; height: auto; } .plane text { font-size: 13px; fill: var(--soft); }
.says { margin: 6px 0 0; padding-left: 20px; max-width: 82ch; font-size: 16px; } .says li { margin: 0 0 8px; }
.text { min-width: 28ch; max-width: 46ch; overflow-wrap: anywhere; } td small { overflow-wrap: anywhere; }
details { border-top: 1px solid var(--line); padding: 8px 0; } details details, .leaf { margin-inline-start: 22px; }
summary { cursor: pointer; } .leaf { border-top: 1px solid var(--line); padding: 8px 0 0 16px; margin-block: 8px 0; }
details + h3, table + h3 { margin-top: 18px; }
summary b, .leaf b { font-weight: 600; overflow-wrap: anywhere; }
.examples article { border-top: 1px solid var(--line); padding: 20px 0 6px; margin-top: 20px; }
blockquote { margin: 0 0 12px; padding: 2px 14px; border-inline-start: 3px solid var(--accent); max-width: 82ch;
  overflow-wrap: anywhere; }
.true { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 22px; margin: 0 0 14px; padding: 0; }
.true small { display: inline; }
.answers { display: grid; gap: 14px 26px; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); }
.answers.c2 { grid-template-columns: 1fr 1fr; } .answers.c3 { grid-template-columns: repeat(3, 1fr); }
h4 { font-size: 13.5px; margin: 0 0 4px; overflow-wrap: anywhere; }
h4 span { color: var(--soft); font-weight: 400; white-space: nowrap; }
.answers ol { margin: 0; padding-left: 20px; } .answers li { padding-left: 2px; overflow-wrap: anywhere; }
.answers li.right { font-weight: 600; } .sign { display: inline-block; width: 1.2em; text-align: center; }
.right .sign, .better { color: var(--accent); } .wrong .sign { color: var(--soft); } .worse { color: var(--s2); }
.tag { display: inline-block; border: 1px solid var(--line); border-radius: 6px; padding: 0 6px; font-size: 12px;
  font-weight: 400; color: var(--soft); white-space: nowrap; }
footer { color: var(--soft); font-size: 13px; padding-bottom: 48px; }
@media (max-width: 560px) { section { padding: 18px 16px; } h1 { font-size: 25px; }
  .pair, .answers.c2, .answers.c3 { grid-template-columns: 1fr; } }
@media print { body { background: none; } section, .tile, article { break-inside: avoid; }
  section.examples { break-inside: auto; } }
"""

TREE = (
    '<svg viewBox="0 0 24 24" aria-hidden="true">'
    '<path d="M12 1.5 5.2 10h3.1L3.6 16h7.1v6.5h2.6V16h7.1l-4.7-6h3.1z"/></svg>'
)


def document(title: str, lead: str, body: str) -> str:
    """A whole page; `title` and `lead` are plain text, `body` is HTML."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # nothing on the page may fetch or run anything, whatever a label's name contains
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<header><div class="mark">{TREE}treetop</div>\n<h1>{escape(title)}</h1>\n'
        f'<p class="lead">{escape(lead)}</p></header>\n'
        f"<main>\n{body}\n</main>\n<footer>{escape(FOOTER)}</footer>\n</body>\n</html>\n"
    )


def section(title: str, note: str, body: str, look: str = "") -> str:
    """One sheet of the page; `title` and `note` are plain text, `body` is HTML, `look` a class of the style."""
    opened = f'<section class="{look}">' if look else "<section>"
    below = f'<p class="note">{escape(note)}</p>\n' if note else ""
    return f"{opened}\n<h2>{escape(title)}</h2>\n{below}{body}\n</section>"


def number_cell(value: str, interval: tuple[float, float] | None) -> str:
    """A cell of a table with a figure, as HTML, and its interval, where there is one."""
    small = f"<small>{interval[0]:.1f} – {interval[1]:.1f}</small>" if interval else ""
    return f'<td class="number">{value}{small}</td>'


def spanned(counts: Sequence[int]) -> str:
    """The smallest and the largest of these counts."""
    return " – ".join(f"{count:,}" for count in sorted(set(counts)))


def check_folder(folder: Path) -> None:
    """Make the folder of a report; refuse one where the page would damage a model or overwrite another page."""
    if model_at(folder):
        raise ConfigError(
            f"--report {folder}: is inside a model folder, which may contain nothing else. Choose another place."
        )
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--report {folder}: is a file. Give the name of a folder.")
    page = folder / "index.html"
    check_outside(page)
    folder.mkdir(parents=True, exist_ok=True)
    if page.exists() and SIGNED not in page.read_text(encoding="utf-8", errors="replace"):
        raise ConfigError(f"--report {folder}: its index.html is not a treetop report. Choose another folder.")


def write(folder: Path, html: str) -> Path:
    """Write `index.html` into `folder` in one go; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "index.html"
    with replacing_file(target) as file:
        file.write(html)
    return target
