"""Where do texts and labels come from?

| answer | gives |
|---|---|
| `read.read(path, split)` | a Dataset from a folder, a file, a bundled name or a Hugging Face data set |
| `read.read_all(path)` | every split, all with the same columns |
| `frame.from_lists`, `frame.from_frame` | a Dataset from lists, a matrix or a data frame |
"""
