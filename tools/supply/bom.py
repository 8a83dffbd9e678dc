"""The packages as a CycloneDX document."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from tools.supply.resolve import NAME, Package

SPDX = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "PSF-2.0"}
OPERATORS = (" AND ", " OR ", " WITH ")


def document(packages: Mapping[str, Package], version: str, needs: set[str]) -> str:
    """The document as it is saved; the same packages give the same text. `needs`: what treetop itself names."""
    reference = {name: _url(package.name, package.version) for name, package in packages.items()}
    whole = f"pkg:pypi/{NAME}@{version}"
    content: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library", "bom-ref": whole, "name": NAME, "version": version, "purl": whole,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [_component(package, reference[name]) for name, package in packages.items()],
        "dependencies": [
            {"ref": whole, "dependsOn": sorted(reference[name] for name in needs)},
            *(
                {"ref": reference[name], "dependsOn": sorted(reference[other] for other in package.needs)}
                for name, package in packages.items()
            ),
        ],
    }  # fmt: skip
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return json.dumps({**content, "serialNumber": f"urn:uuid:{serial}"}, indent=1, sort_keys=True) + "\n"


def _url(name: str, version: str) -> str:
    return f"pkg:pypi/{name.lower().replace('_', '-')}@{version.replace('+', '%2B')}"


def _component(package: Package, reference: str) -> dict[str, Any]:
    return {
        "type": "library", "bom-ref": reference, "name": package.name, "version": package.version, "purl": reference,
        "scope": package.scope, "hashes": [{"alg": "SHA-256", "content": package.sha256}],
        "licenses": [_licence(package.licence)],
    }  # fmt: skip


def _licence(told: str) -> dict[str, Any]:
    """As the package says it; nothing is guessed, so that "BSD" stays a name."""
    if any(operator in told for operator in OPERATORS):
        return {"expression": told}
    return {"license": {"id": told} if told in SPDX else {"name": told}}
