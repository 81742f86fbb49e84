"""Losses on the embeddings of a whole batch: one short file per family, tensors in, `(loss, parts)` out.

infonce.py     SimCSE, SimACE, ArcCon, DCL     triplets.py    MPT, MET, MAT
pairsupcon.py  PairSupCon                      supcon.py      SupCon and its baseline Augment
softmax.py     SBERT's classification          scored.py      CoSENT, AoE, Pearson's r, squared error
pcl.py         PCL: two peer encoders          rankcse.py     RankCSE: rankings, and a teacher's
distillation.py  Margin-MSE, KL and embed: a teacher's scores, or its embeddings
mlm.py         the masked-language-model term  matryoshka.py  any loss at several sizes of the embeddings
similarity.py  similarities of embeddings      rows.py        a batch's text ids, labels and scores
functional.py  building blocks: masks, means, precision

Every loss is a function `loss(views, rows, heads, settings)` of

- `views`, named (N, d) embeddings: anchor, positive, negative. Row i of each belongs together;
- `rows`, the texts' ids and labels (`rows.Rows`);
- `heads`, the modules that only this loss uses, made by `heads(width)` of the same file;
- `settings`, those of its objective; the loss of another package names the settings that it takes instead.

It returns a `functional.Result`. Similarities normalise, the model does not. Losses get their embeddings in float32
(float64 stays float64), and autocast is off around them. A term with nothing to average is a zero that keeps the graph.

In the comments N are the rows of a batch, M the columns that an anchor is compared with, and n the anchors of one block
of `mean_over`.
"""
