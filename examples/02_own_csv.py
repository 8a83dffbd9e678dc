"""A CSV with columns and separators of its own, and a bad row."""

from pathlib import Path

import treetop

Path("books.csv").write_text(
    "id;title;subjects\n"
    "1;Tailings management in mines;mining industry, waste management\n"
    "2;Safety of old dams;dams, safety\n"
    "3;Mines and their dams;mining industry, dams\n"
    "4;A row with too few cells\n"
    "5;Recycling of household waste;waste management, recycling\n",
    encoding="utf-8",
)
skipped = treetop.Skipped()
books = treetop.Dataset.read("books.csv", fields=["title"], label_field="subjects", separator=", ", skip=skipped)
print(f"{len(books)} rows, {books.n_labels} labels; left out: {len(skipped)}")

model = treetop.fit("neighbours", books)
for label in model.predict("dams of a mine", k=2):
    print(label.name, round(label.score, 2))
