"""The screen Live: a run as it trains, or as it was.

screen.py       follows a run, draws it, and calls for attention
view_screen.py  the keys that change how a run is looked at
view.py         what of a history is shown, and its values
panels.py       what each panel makes of a history
lines.py        panels of lines, and the one of violated anchors
area.py         the panels on the screen: which, where, and the one that fills it
header.py       the state of a run, its progress, and what to do next
"""
