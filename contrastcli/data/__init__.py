"""Text in: file formats, roles of columns, data sets by name, the token cache and batching.

`load_examples` gives the rows to train on, `load_dev` the pairs that choose a checkpoint.
"""
