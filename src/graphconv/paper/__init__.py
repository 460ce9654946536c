"""The paper's experiments, one file per table or figure; `commands.reproduce` runs them.

The tables are made of repeated runs: a module says which (`series`) and what they come to
(`section`), and `runs` does them on all cores. The numbers are worked out in one go (`section`).
What leaves is a section: a title, some words, tables and figures, which `page` puts on paper.
"""
