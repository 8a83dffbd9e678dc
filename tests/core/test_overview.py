from treetop.core import registry
from treetop.core.config import describe
from treetop.core.overview import MAIN, MOST, main_rows


def test_main_settings_exist_and_every_recipe_has_some():
    rows = {name: describe(registry.find("recipe", name).Config) for name in registry.names("recipe")}
    assert {row[0] for found in rows.values() for row in found}.issuperset(MAIN)
    for name, found in rows.items():
        shown = main_rows(found)
        assert len(shown) <= MOST and (len(shown) > 3 or name in {"popular", "blend", "auto"}), name


def test_settings_of_another_package_are_shown_at_the_top():
    rows = [(name,) for name in ("a", "b.c", *(f"b.{i}" for i in range(20)))]
    assert main_rows(rows) == [("a",)] and main_rows(rows[:3]) == rows[:3]
