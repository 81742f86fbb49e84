"""The screen Query: two sentences and a corpus, asked of a model.

screen.py            the sentences, the answers of one model or two, and the corpus
query_panel.py       `contrast query -` as a process that stays, and the panels that ask it
similarity_panel.py  the cosine and the angle of two sentences
corpus_panel.py      the sentences of a file that are nearest to a question
"""
