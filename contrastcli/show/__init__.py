"""Results as text and pictures.

answers.py   similarities, neighbours, mined rows, benchmarks
scores.py    scores of models, with the published ones next to them
runs.py      runs: all, one, several side by side, sweeps
settings.py  settings, presets, objectives
papers.py    the papers' tables in five formats
console.py   events to a terminal: bars, lines, JSON
format.py    values, tables, JSON and paragraphs
curve.py     a similarity over angles
pictures.py  the papers' pictures as data
chart.py     a picture in characters, with its gutter, ticks and legend; as plain text too
axes.py      rows at round values, ticks and units
canvas.py    lines in braille dots
areas.py     coloured areas: heat maps and bars
plots.py     pictures as PNG, SVG and CSV, in the style of plots.mplstyle
"""
