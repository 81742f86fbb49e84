"""Losses on the embeddings of a whole batch: one short file per family, tensors in, `(loss, parts)` out.

Every loss is a function `loss(views, rows, heads, *, settings)` of

- `views`, named (N, d) embeddings: anchor, positive, negative. Row i of each belongs together;
- `rows`, the texts' ids and labels (`rows.Rows`);
- `heads`, the modules that only this loss uses, made by `heads(width)` of the same file.

It returns the scalar to minimise, with its graph, and its terms, unweighted and detached. Similarities normalise, the
model does not. Losses are computed in float32 (float64 stays float64), whatever the precision of the embeddings and
with autocast off. A term with nothing to average over is a zero that keeps the graph.
"""
