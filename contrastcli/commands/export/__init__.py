"""`contrast export`, and what `contrast merge` writes.

export.py    a model to a new folder, which appears when it is complete
push.py      the command: to a folder, to the hub as one commit, or to both
formats.py   the formats, each checked against the model
card.py      the folder's card, from card.md or card-onnx.md
"""
