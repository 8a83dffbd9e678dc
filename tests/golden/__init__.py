"""Models that released versions have written, and the answers they gave (docs/release.md): they open for ever.

`python -m tests.golden` writes those of this version, once, before it is released; `test_models.py` opens all of them.
"""
