"""Evaluation: how good a model is, a suite a file, and whether one method is better than another.

suites.py        every suite as data: tasks, columns, headline, averages
procedure.py     what the file of a suite consists of: subject, options, `Procedure`
measure.py       measure a suite: read, score or take from the cache, average
evaluate.py      measure models by name, and write their scores
sts.py, transfer.py, clustering.py, retrieval.py, own.py, geometry.py, mteb.py   the suites
senteval.py      reads SentEval's folder: the files of STS and of transfer
ranking.py       nDCG, MRR, recall, MAP and the accuracy of triplets
glove.py         files of word vectors as a baseline
significance.py  Welch's t-test and the paired bootstrap
run_scores.py    the scores of runs, side by side and by method
reproduction.py  a table of a paper, made again
"""
