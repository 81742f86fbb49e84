"""The settings of the objectives that come with contrast, which objectives.toml lists; no torch.

infonce.py   simcse, simace, arccon, dcl: a row's positive against the batch
triplets.py  mpt, met, mat: a row's positive against the hardest anchor
labelled.py  pairsupcon, supcon, augment, softmax: labelled pairs
lists.py     pcl, rankcse: InfoNCE, and lists of similarities
scored.py    cosent, aoe, pearson, mse: scored pairs
"""
