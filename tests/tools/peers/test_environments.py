import sys

import pytest

from tools.peers import environments
from treetop.core.errors import ConfigError, ResourceError


def test_an_environment_is_made_once_and_again_when_its_contents_change(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(environments, "_call", lambda command, name: seen.append(command))
    python = environments.set_up("libpecos", tmp_path)
    assert python == tmp_path / "libpecos" / "bin" / "python"
    assert seen[0][:3] == [sys.executable, "-m", "venv"]
    assert [command[-1] for command in seen[1:]] == ["torch==2.13.0", "libpecos==1.2.8"]
    assert "torch==2.13.0" in (tmp_path / "libpecos" / "pins.txt").read_text()  # holds the peer to it
    environments.set_up("libpecos", tmp_path)
    assert len(seen) == 3
    (tmp_path / "libpecos" / ".ready").write_text("libpecos==1.0\n")
    environments.set_up("libpecos", tmp_path)
    assert len(seen) == 6


def test_an_install_that_fails_is_not_taken_for_ready(tmp_path, monkeypatch):
    def fail(command, name):
        raise ResourceError("no index")

    monkeypatch.setattr(environments, "_call", fail)
    with pytest.raises(ResourceError, match="no index"):
        environments.set_up("omikuji", tmp_path)
    assert not (tmp_path / "omikuji" / ".ready").exists()


def test_what_a_failing_command_said_is_told():
    with pytest.raises(ResourceError, match="peer: .* ended with 3: out of luck"):
        environments._call([sys.executable, "-c", "import sys; sys.stderr.write('out of luck'); sys.exit(3)"], "peer")


def test_unknown_environments_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'omikuji'"):
        environments.set_up("omikji", tmp_path)
