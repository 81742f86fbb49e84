"""The screen Setup: what is trained, from what, and how.

screen.py         the form, the curves, the command line and the start
draft.py          what is being set up; no widget
form.py           a row for each setting
curve.py          the curves of the chosen similarity
dry_run_panel.py  the summary of what would be trained
rows.py           the rows of the data that are unusual, to accept and reject
"""
