"""What a stranger installs: `python -m tools.package` builds it and tries it (docs/release.md).

| file | does |
|---|---|
| `build` | sdist and wheel, the same bytes from the same commit; what they hold is compared with the repository |
| `trial` | what a new user does, with an installed treetop, away from the repository (standard library only) |
| `rooms` | places to install it in: an empty environment here, Debian releases with newer Pythons |
"""
