"""What the documentation is made of besides hand-written text: `python -m tools.docs` writes all of it.

| file | makes |
|---|---|
| `pages` | pages from the code: commands, recipes, augmentations (`api`: public functions and classes) |
| `tables` | tables in Markdown files from records (`markdown`: how they look) |
| `packages` | the table of Pythons on which the wheel was tried |
| `runs`, `pairs` | tables of trainings on a GPU; recipes without and with Gandalf side by side |
| `figures` | figures from records (`drawing`: plain SVG) |
| `site` | navigation and links of the site that `make site` builds with mkdocs |
| `generated` | which of these files are out of date, and writing them |
"""
