"""Trees over documents (FastXML): sides by ranking, sparse separators, growth, and the way of a text to its leaves."""
