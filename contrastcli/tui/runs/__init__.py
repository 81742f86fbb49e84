"""The screen Runs: all runs of a directory.

screen.py         the table, what is selected in it, and their keys
listing.py        the runs as they were last read
columns.py        what the table can show, sort by and filter by
tree.py           runs below headings: methods, sweeps, tables of the papers
heat_map.py       a sweep as a table of two of its settings
runs_table.py     the widget of the table
overlay_panel.py  several runs on shared axes, what sets them apart, and bootstrap tests of two
"""
