"""`contrast export`, and what `contrast merge` writes.

export.py    a model to a new folder, which appears when it is complete
push.py      the command: to a folder, to the hub as one commit, or to both
formats.py   the formats: how each is written, and read by its own software
check.py     what was written against the model: cosines and dev scores
card.py      the folder's card, from card.md or card-onnx.md
"""
