"""The objectives that come with contrast: the settings of each and, next to them, its `Spec`; no torch.

infonce.py   simcse, simace, arccon, dcl: a row's positive against the batch
triplets.py  mpt, met, mat: a row's positive against the hardest anchor
labelled.py  pairsupcon, supcon, augment, softmax: labelled pairs
lists.py     pcl, rankcse: InfoNCE, and lists of similarities
scored.py    cosent, aoe, pearson, mse: scored pairs
"""
