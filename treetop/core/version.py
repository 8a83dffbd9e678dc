"""The version of the package and of the model folder format; they move independently."""

VERSION = "0.2.0"
FORMAT_VERSION = 1
