"""The app. It reads run directories, and runs the command line for all else; each screen has a folder.

app.py          the five screens on a runs directory, the keys of all of them, also to read outside, and the palette
screen.py       what the five screens have in common
run_screen.py   what can be done with a run, on the screens Live and Runs
keys.py         keys one after the other
custom.py       the user's own themes and keys
state.py        what is remembered from one session to the next
processes.py    `contrast …` in child processes
dialogs.py      a question, a line to type, a list to order, and help
chart_view.py   a widget that draws a picture
widgets.py      plain text, the bar of keys, rows of a form, bars of progress
screenshot.py   a screen as an SVG
terminal.py     the end of the app when its terminal goes away
"""
