"""Text in: files and data sets become training rows, dev data and batches. No file here knows a model.

sources.py    data by the name that a user types: a path, hf:…, senteval:DIR, starter, stsb
hub.py        data sets and files of the Hugging Face hub, and data sets saved to a folder
downloads.py  progress of long work on data, and downloads from the hub, of models too
lines.py      bytes as lines of text: their encoding and limits, and cells as numbers
formats.py    a .csv, .tsv, .jsonl, .parquet … as named columns (a Frame), with lines for errors
folders.py    the files of a folder as one set, also queries and documents in BEIR's layout
forms.py      tables for `contrast help`: formats, names of columns, forms of rows
roles.py      which column is the anchor, the positive, the label …, and its checked values
examples.py   training rows (Examples) and scored pairs, made from a Frame; their fingerprints
convert.py    rows in another form, several sets as one, and rows held out as dev data
findings.py   what is unusual in training rows: texts of the dev set, equal and contradicting rows …
dev_data.py   dev data, and the metric that fits them
relevance.py  queries, documents and which are relevant: dev data without scores, suites of retrieval
texts.py      columns of texts by the million, in memory or in temporary files
tokens.py     tokenizers, tables of token ids and their cache
batching.py   the order of rows in an epoch, and the chunks of a batch
writing.py    rows into files that formats.py reads again
"""
