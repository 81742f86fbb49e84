"""The run directory: what it holds, who writes it, and how it is read. Everything that shows a run reads only this.

directory.py   the files of a run; create, find, list, delete and prune runs
verdict.py     what a training changed, with an interval, and what that says
event.py       what every event has
events.py      the typed events of the course of a run, and their lines of JSON
measured.py    the events that measure: steps, the dev set, angles, the machine
event_file.py  events.jsonl, appended to, read from either end, or followed
status.py      the state of a run, from its last events, heartbeat and process
process.py     the process that trains, from outside: start, stop, wait for its end; its lock and heartbeat
scores.py      what evaluation measured of a run or of another model
checksums.py   checksums of a checkpoint's files
cells.py       a cell of a sweep or of a paper's table: one of the runs that commands/sweep.py trains in turn
sweeps.py      a grid of settings times seeds, its cells, and its file
methods.py     runs that differ only in their seed: mean and deviation
alerts.py      rules over events, and the webhook
results.py     the results of commands, as types that print as JSON and that the app decodes
text.py        numbers and texts as people read them
"""
