"""What can be told of deploy/ without running it: options exist, users, paths and ports are the same everywhere."""

import re
import shlex
from pathlib import Path

import yaml
from typer.main import get_command

from treetop.cli.main import app

DEPLOY = Path(__file__).parents[2] / "deploy"
RECIPE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
UNIT = (DEPLOY / "treetop.service").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
OPTIONS = {name for option in get_command(app).commands["serve"].params for name in option.opts}


def started(words):
    """The options of a command; each must be one of `treetop serve`."""
    return {word for word in words if word.startswith("--")}


def test_options_of_the_image_and_the_unit_exist():
    command = re.search(r"^CMD (\[.*\])$", RECIPE, flags=re.M)[1]
    assert {"--host", "--token-file", "--feedback"} == started(yaml.safe_load(command))
    line = re.search(r"^ExecStart=(.*)$", UNIT, flags=re.M)[1]
    words = shlex.split(line)
    assert words[:2] == ["/opt/treetop/bin/treetop", "serve"]
    assert started(words) | started(yaml.safe_load(command)) <= OPTIONS


def test_the_image_is_not_root_and_names_no_registry():
    assert re.findall(r"^USER (.*)$", RECIPE, flags=re.M) == ["10001:10001"]
    assert re.findall(r"^FROM (\S+)", RECIPE, flags=re.M) == ["${BASE}", "${BASE}"]
    assert re.search(r"^ARG BASE=treetop-base$", RECIPE, flags=re.M)
    assert "HEALTHCHECK" in RECIPE and "--format docker" in (DEPLOY / "build.sh").read_text(encoding="utf-8")


def test_compose_mounts_what_the_image_reads():
    service = COMPOSE["services"]["treetop"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and service["pull_policy"] == "never"
    targets = {volume.removesuffix(":ro").rpartition(":")[2] for volume in service["volumes"]}
    assert targets == {"/models", "/run/token", "/feedback", "/var/cache/treetop"}
    assert all(target in RECIPE for target in targets)
    assert [port.rpartition(":")[2] for port in service["ports"]] == re.findall(r"^EXPOSE (\d+)$", RECIPE, flags=re.M)
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_compose_asks_for_what_is_missing():
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"\$\{([A-Z]+):\?", text)) == {"MODELS", "TOKEN"}


def test_the_unit_keeps_feedback_to_itself():
    assert "DynamicUser=yes" in UNIT and "ProtectSystem=strict" in UNIT and "UMask=0077" in UNIT
