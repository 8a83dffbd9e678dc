"""Where do texts and labels come from?

| answer | gives |
|---|---|
| `read.read(path, split)`, `read.read_all(path)` | a Dataset from a folder, file, bundled name or Hugging Face object |
| `frame.from_lists`, `frame.from_frame` | a Dataset from lists, a matrix or a data frame |
| `inputs.read_inputs` | texts alone, to predict |
| `label_files.read_label_file` | labels alone, to add to a model |
| `write.write(data, path, format)` | a new folder in any format; losses are refused by name |
| `validate.validate`, `stats.describe`, `split.holdout` | all bad rows, counts, rows to validate on |

`detect.py` finds the format: one file each in `formats/` for `jsonl`, `table` (CSV, TSV, Parquet), `xc`, `lf`,
`attentionxml`, `pecos`, `libsvm`, `fasttext`, `annif` (with `skos`) and `huggingface`. Each yields `rows.Row`s, which
`row_checks.RowChecks` checks and `build.Builder` packs; `space.LabelTable` knows the columns. Formats share what lies
in `parse/`: `lines` (text files), `json_text`, `arrow`, `fields` (named fields), `numbered` (labels as column numbers),
`limits` (how long a line, a cell or a header may be), `surrogates` (what UTF-8 cannot encode); and `sidecar` (files
next to the rows). `catalog.yaml` holds facts about published sets.
"""
