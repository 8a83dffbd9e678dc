"""What released versions have promised (docs/release.md): models they wrote with their answers, and public names.

`python -m tests.golden` writes those of this version, once, before it is released.
"""
