import json
from importlib import metadata

import pytest

from treetop.core import installed
from treetop.core.errors import missing


class Fake:
    def __init__(self, **files):
        self.files = files

    def read_text(self, name):
        return self.files.get(name)


def direct(**told):
    return {"direct_url.json": json.dumps(told)}


CLONE = direct(url="file:///home/me/my%20code/treetop", dir_info={"editable": True})


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"INSTALLER": "pip\n"}, "pip install 'treetop[data]'"),
        ({"INSTALLER": "uv\n"}, "uv pip install 'treetop[data]'"),
        ({"INSTALLER": "pip"} | CLONE, "pip install -e '/home/me/my code/treetop[data]'"),
        ({"INSTALLER": "uv"} | direct(url="file:///src/treetop", dir_info={"editable": True}),
         "uv pip install -e '/src/treetop[data]'"),
        (direct(url="file:///src/treetop", dir_info={}), "pip install '/src/treetop[data]'"),
        (direct(url="https://a.org/treetop.git", vcs_info={"vcs": "git", "commit_id": "0"}),
         "pip install 'treetop[data] @ git+https://a.org/treetop.git'"),
        ({"direct_url.json": "{"}, "pip install 'treetop[data]'"),
        (None, "pip install 'treetop[data]'"),
    ],
)  # fmt: skip
def test_hints_are_as_the_package_was_installed(monkeypatch, tmp_path, files, command):
    def distribution(name):
        if files is None:
            raise metadata.PackageNotFoundError(name)
        return Fake(**files)

    monkeypatch.setattr(installed.metadata, "distribution", distribution)
    monkeypatch.setattr(installed.sys, "prefix", str(tmp_path))
    assert installed.command_for("data") == command
    assert str(missing("openpyxl", "data", "a.xlsx")) == (
        f"a.xlsx needs the package 'openpyxl', which is not installed. Install it with: {command}"
    )


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("pipx_metadata.json", "pipx install --force 'treetop[data]'"),
        ("uv-receipt.toml", "uv tool install 'treetop[data]'"),
    ],
)
def test_tools_have_environments_of_their_own(monkeypatch, tmp_path, file, command):
    (tmp_path / file).touch()
    monkeypatch.setattr(installed.sys, "prefix", str(tmp_path))
    assert installed.command_for("data") == command
