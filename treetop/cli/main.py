"""`treetop`: collects the commands. Only what `--help` shows is imported here; each command loads its own needs."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from treetop.cli import bench, compare, data, demo, evaluate, explain, fit, predict, recipes, verify
from treetop.core.errors import TreetopError
from treetop.core.version import VERSION

app = typer.Typer(
    name="treetop",
    help="Extreme multi-label text classification: from a text to the few right labels out of thousands or millions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo.demo,
    fit.fit,
    predict.predict,
    evaluate.evaluate,
    compare.compare,
    explain.explain,
    verify.verify,
    recipes.recipes,
):
    app.command()(command)
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"treetop {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and errors only.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    import logging

    from treetop.core import log

    log.show(level=logging.WARNING if quiet else logging.INFO, bars=not quiet)


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2, a closed pipe ends quietly."""
    try:
        app()
    except TreetopError as error:
        sys.stdout.flush()
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except MemoryError:
        sys.stderr.write("error: out of memory. Use less data or a smaller preset, or set --budget memory=...\n")
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; finished stages are kept, go on with --resume\n")
        sys.exit(130)
