"""What `treetop serve` refuses before it starts: one sentence, exit code 2."""

import re
import socket
import subprocess
import sys

import pytest

import command
from treetop.core.errors import ConfigError, InputError, ModelError
from treetop.serve.settings import Settings, check_report, find_report, is_loopback, named_models, read_token
from treetop.serve.sockets import listen


def refused(*words):
    done = command.run("serve", *words)
    assert done.returncode == 2 and done.stdout == "", done
    assert re.fullmatch(r"error: [^\n]+\n", done.stderr), done.stderr
    return done.stderr


def test_no_such_folder(tmp_path):
    assert "no such model folder" in refused(tmp_path / "nix")


def test_a_wide_address_needs_a_token(plain):
    assert "--token-file" in refused(plain, "--host", "0.0.0.0")
    for host in ("::", "192.168.1.5", "example.org", ""):
        with pytest.raises(ConfigError, match="--token-file"):
            Settings((("m", plain),), host)


def test_tokens_that_are_none(plain, tmp_path):
    assert "could not be read" in refused(plain, "--token-file", tmp_path / "nix")
    for content in (b"", b"short", b"with blanks in the middle", b"\xff" * 20, "é".encode() * 20):
        (tmp_path / "token").write_bytes(content)
        with pytest.raises(InputError, match="--token-file"):
            read_token(tmp_path / "token")
    (tmp_path / "token").write_text("0123456789abcdef\n")
    assert read_token(tmp_path / "token") == "0123456789abcdef"
    assert read_token(None) == ""


def test_port_taken(plain):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "another program listens there" in refused(plain, "--port", port)


def test_a_second_server_on_the_port_is_refused():
    sockets = listen("127.0.0.1", 0, 2)
    try:
        for sock in sockets:
            sock.listen()
        port = sockets[0].getsockname()[1]
        assert {sock.getsockname()[1] for sock in sockets} == {port}
        for n in (1, 2):
            with pytest.raises(ConfigError, match="another program listens there"):
                listen("127.0.0.1", port, n)
    finally:
        for sock in sockets:
            sock.close()


def test_addresses_that_are_none():
    with pytest.raises(ConfigError, match="does not have that address"):
        listen("192.0.2.1", 0, 1)
    with pytest.raises(ConfigError, match="not an address of this machine"):
        listen("no such host", 0, 1)


def test_a_report_that_is_none(plain, tmp_path):
    assert "has no index.html" in refused(plain, "--report", tmp_path)
    (tmp_path / "index.html").touch()  # of which of the two?
    assert "has no report of a model, such as a/index.html" in refused(f"a={plain}", f"b={plain}", "--report", tmp_path)


def test_reports_of_several_models(plain, tmp_path):
    models = named_models([f"a={plain}", f"b={plain}"])
    for name in ("", "a"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "index.html").touch()
    assert check_report(tmp_path, models) == tmp_path
    assert find_report(tmp_path, "a", models) == tmp_path / "a" / "index.html"
    assert find_report(tmp_path, "b", models) is None
    assert find_report(tmp_path, "b", models[1:]) == tmp_path / "index.html"


def test_a_file_that_is_no_feedback(plain, tmp_path):
    (tmp_path / "text").write_text("not a database, but long enough to be read as one" * 20)
    assert "is no database" in refused(plain, "--feedback", tmp_path / "text")


def test_names_of_models(plain, tmp_path):
    assert named_models([str(plain), f"b={plain}"]) == (("plain", plain), ("b", plain))
    with pytest.raises(ConfigError, match="two models are called 'plain'"):
        named_models([str(plain), str(plain)])
    (tmp_path / "a=b").mkdir()
    assert named_models([str(tmp_path / "a=b")])[0][0] == "a=b"
    with pytest.raises(ConfigError, match="has no name"):
        named_models(["/"])
    with pytest.raises(ModelError, match="no such model folder"):
        named_models(["x=nix"])
    with pytest.raises(ConfigError, match="no model"):
        Settings(())


def test_loopback():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))


def test_the_extra_is_named_where_it_is_missing(plain):
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from treetop.cli.main import main; sys.argv = ['treetop', 'serve', sys.argv[1]]; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, plain], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "[serve]'" in done.stderr, done.stderr
