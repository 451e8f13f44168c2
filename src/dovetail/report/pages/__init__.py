"""Answers as pages, one file for each kind of answer: which charts and tables, in which order, under which words."""
