"""`treetop`: collects the commands. Only what `--help` shows is imported here; each command loads its own needs."""

from __future__ import annotations

import sys
from typing import Annotated, Any, NoReturn

import typer

from treetop.cli import (
    adapt,
    advise,
    bench,
    blend,
    calibrate,
    compare,
    data,
    demo,
    ending,
    evaluate,
    explain,
    export,
    faults,
    fit,
    hub,
    labels,
    learn,
    plan,
    predict,
    recipes,
    serve,
    streams,
    tune,
    verify,
    warmup,
)
from treetop.core.errors import BadRow, TreetopError, shortened, visible
from treetop.core.version import VERSION

MISUSE: Any = typer.BadParameter.__base__  # of all errors about options and arguments

app = typer.Typer(
    name="treetop",
    help="Extreme multi-label text classification: from a text to the few right labels out of thousands or millions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo.demo,
    advise.advise,
    plan.plan,
    fit.fit,
    tune.tune,
    adapt.adapt,
    blend.blend,
    learn.learn,
    calibrate.calibrate,
    predict.predict,
    evaluate.evaluate,
    compare.compare,
    explain.explain,
    serve.serve,
    verify.verify,
    export.export,
    recipes.recipes,
    bench.bench,
    warmup.warmup,
):
    app.command()(command)
app.add_typer(data.app, name="data")
app.add_typer(labels.app, name="labels")
app.add_typer(hub.app, name="hub")


def _version(wanted: bool) -> None:
    if wanted:
        streams.echo(f"treetop {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and errors only.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    import logging

    from treetop.core import log

    level = (logging.WARNING if quiet else logging.INFO) if streams.speaks() else logging.ERROR
    log.show(level=level, bars=level == logging.INFO)


def main() -> None:
    """Run a command; a user's mistake is one sentence and exit code 2, a closed pipe ends quietly."""
    with ending.handled():
        code = _run()
        if ending.came() or code == ending.INTERRUPTED:
            ending.leave()
        sys.exit(code)


def _run() -> int:
    """The exit code of the command."""
    streams.prepare()
    try:
        return app(prog_name="treetop", standalone_mode=False) or 0
    except TreetopError as error:
        _refuse(f"{error} --skip-bad leaves out bad rows." if isinstance(error, BadRow) else str(error))
    except MISUSE as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: its help is the answer
            error.show()
            sys.exit(2)
        command = "treetop" if error.ctx is None else error.ctx.command_path
        message = error.format_message().rstrip(".")
        _refuse(f"{message}{'' if message.endswith('?') else '.'} See `{command} --help`.")
    except SystemExit as error:
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        streams.discard_output()
        return 0
    except Exception as error:
        message = faults.sentence(error)
        if message is None and not ending.came():
            raise
        _refuse(message or "")


def _refuse(sentence: str) -> NoReturn:
    if ending.came():  # what failed then failed by the interruption
        ending.leave()
    try:
        sys.stdout.flush()
    except OSError:
        streams.discard_output()
    sys.stderr.write(f"error: {visible(shortened(' '.join(sentence.split())))}\n")
    sys.exit(2)
