"""What treetop is made with: `python -m tools.supply` asks pip and writes lists; `--check` compares them offline.

| file | does |
|---|---|
| `resolve` | the packages pip would install for all extras, from its report |
| `bom` | those as a CycloneDX document, `sbom.cdx.json`, from which the other two files follow |
| `lists` | `constraints-hashes.txt`, and the tables of docs/licences.md |
"""
