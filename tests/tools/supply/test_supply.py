"""The lists of what treetop is made with: whole, current, and of licences that let it be used."""

import json
import re
from pathlib import Path

import pytest

from tools.supply.__main__ import BOM, main, stale
from tools.supply.bom import document
from tools.supply.lists import locked, page, said
from tools.supply.resolve import packages

ROOT = Path(__file__).parents[3]
SHA = {name: name[0] * 64 for name in ("core-lib", "Extra_Lib", "part", "tool")}


def installed(name, version="1.0", *needs, **facts):
    archive = {"archive_info": {"hashes": {"sha256": SHA.get(name, "")}}}
    metadata = {"name": name, "version": version, "requires_dist": list(needs), **facts}
    return {"metadata": metadata, "download_info": archive}


@pytest.fixture
def told():
    """pip's report on a small world."""
    ours = ["Core_Lib>=1", 'extra-lib[fast]; extra == "all"', 'tool; extra == "test"', 'win; sys_platform == "win32"']
    return {
        "environment": {"python_version": "3.11", "sys_platform": "linux"},
        "install": [
            installed("treetop", "0.2.0", *ours),
            installed("core-lib", license_expression="MIT AND BSD-3-Clause"),
            installed("Extra_Lib", "2.0+cpu", "core-lib", 'part; extra == "fast"', 'no; extra == "x"', license="MIT"),
            installed("part", license="x" * 200, classifier=["License :: OSI Approved :: BSD License"]),
            installed("tool", "1.0", license="UNKNOWN", classifier=["License :: OSI Approved :: MIT License"]),
        ],
    }  # fmt: skip


def test_packages_know_who_needs_them(told):
    found = packages(told)
    assert {name: package.scope for name, package in found.items()} == {
        "core-lib": "required", "extra-lib": "optional", "part": "optional", "tool": "excluded",
    }  # fmt: skip
    assert found["extra-lib"].needs == {"core-lib", "part"} and found["core-lib"].needs == set()
    assert [package.licence for package in found.values()] == [
        "MIT AND BSD-3-Clause", "MIT", "BSD License", "MIT License",
    ]  # fmt: skip


def test_the_document_names_each_package_once_with_its_hash_and_licence(told):
    found = packages(told)
    text = document(found, "0.2.0", {"core-lib", "extra-lib"})
    assert document(dict(found), "0.2.0", {"extra-lib", "core-lib"}) == text
    content = json.loads(text)
    assert (content["bomFormat"], content["specVersion"]) == ("CycloneDX", "1.6")
    item = next(item for item in content["components"] if item["name"] == "Extra_Lib")
    assert item["purl"] == "pkg:pypi/extra-lib@2.0%2Bcpu" and item["licenses"] == [{"license": {"id": "MIT"}}]
    assert content["components"][0]["licenses"] == [{"expression": "MIT AND BSD-3-Clause"}]
    references = {item["bom-ref"] for item in content["components"]} | {"pkg:pypi/treetop@0.2.0"}
    assert {edge["ref"] for edge in content["dependencies"]} == references
    assert all(set(edge["dependsOn"]) <= references for edge in content["dependencies"])
    assert f"Extra_Lib==2.0 --hash=sha256:{SHA['Extra_Lib']}\n" in locked(content)
    assert "## Extras\n\n| package | version | licence |\n|---|---|---|\n| Extra_Lib | 2.0+cpu | MIT |\n" in page(
        content
    )


def test_the_lists_of_the_repository_are_current():
    assert stale(ROOT) == [], "run `make supply`"


def test_what_is_stale_is_said(tmp_path, capsys):
    for name in (BOM, "constraints-hashes.txt", "docs/licences.md", "constraints.txt", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    assert main(["--check", "--root", str(tmp_path)]) == 0 and capsys.readouterr().out == ""
    for name, old, new in (
        ("constraints.txt", "numpy==", "numpy==9"),
        ("pyproject.toml", '"rich>=', '"poorer>='),
        ("constraints-hashes.txt", "sha256:", "sha256:0"),
    ):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text.replace(old, new, 1))
    assert main(["--check", "--root", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "constraints-hashes.txt is not what sbom.cdx.json gives: run `make supply`\n" in out
    assert "sbom.cdx.json lacks poorer, which pyproject.toml names" in out
    assert re.search(r"sbom.cdx.json has numpy [\d.]+, constraints.txt ==9", out)


def test_every_wheel_has_a_hash_and_every_package_a_licence_that_lets_it_be_used():
    lines = [line for line in (ROOT / "constraints-hashes.txt").read_text().splitlines() if line[0] != "#"]
    assert len(lines) > 80
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    content = json.loads((ROOT / BOM).read_text())
    for item in content["components"]:
        assert re.search("MIT|BSD|Apache|ISC|PSF|MPL|Mozilla", said(item)), item
        assert not re.search("GPL|Commercial|Proprietary|Non-?Commercial", said(item)), item
