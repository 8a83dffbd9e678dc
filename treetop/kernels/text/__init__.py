"""Texts to numbers: the scanner over UTF-8, tables of terms, tf-idf weights."""
