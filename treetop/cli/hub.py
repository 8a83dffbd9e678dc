"""`treetop hub`: models pushed to and pulled from a hub that speaks Hugging Face's protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treetop.cli.streams import confirm

app = typer.Typer(help="Push models to a hub, and pull them.", no_args_is_help=True)
Repository = Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Repository on the hub.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="File with a token; default: HF_TOKEN, or that of `hf auth login`.")
]


@app.command()
def push(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model folder.")],
    repository: Repository,
    branch: Annotated[str, typer.Option(help="Branch to commit to.")] = "main",
    private: Annotated[bool, typer.Option("--private", help="A repository that is created is private.")] = False,
    with_texts: Annotated[
        bool, typer.Option("--with-texts", help="Also push the training texts that the model keeps.")
    ] = False,
    token_file: TokenFile = None,
) -> None:
    """Verify a model and upload it; a repository that does not exist is created."""
    from treetop import hub
    from treetop.core.forecast import size

    done = hub.push(model, repository, branch=branch, private=private, with_texts=with_texts, token=_token(token_file))
    confirm(f"{repository}: pushed {done.files} files ({size(done.bytes)}), revision {done.revision}")


@app.command()
def pull(
    repository: Repository,
    out: Annotated[Path, typer.Option("--out", help="New folder for the model.")],
    revision: Annotated[str, typer.Option(help="Branch, tag or commit; a commit's hash pins the model.")] = "main",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing model.")] = False,
    token_file: TokenFile = None,
) -> None:
    """Download a model and put it in place once every byte is verified."""
    from treetop import hub
    from treetop.core.forecast import size

    done = hub.pull(repository, out, revision=revision, overwrite=overwrite, token=_token(token_file))
    confirm(f"{out}: pulled and verified {done.files} files ({size(done.bytes)}), revision {done.revision}")


def _token(file: Path | None) -> str | None:
    """The token in a file."""
    if file is None:
        return None
    from treetop.core.errors import InputError

    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise InputError(f"--token-file {file}: cannot be read ({reason}).") from None
    if not token or len(token.split()) > 1:
        raise InputError(f"--token-file {file}: holds no token. Put the token alone into the file.")
    return token
