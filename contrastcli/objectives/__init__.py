"""Losses on the embeddings of a whole batch: one short file per family, tensors in, `(loss, parts)` out.

Every loss has the same shape, `loss(views, rows, heads, *, settings)`:

- `views` are named (N, d) embeddings: anchor, positive, negative. Row i of each belongs together;
- `rows` is what the loss may know of the texts behind them (`rows.Rows`);
- `heads` are the modules that only this loss uses, made by `heads(width)` of the same file.

It returns the scalar to minimise, with its graph, and the terms that it is made of, unweighted and detached.
Similarities normalise; the embeddings come as the model made them. Everything is computed in float32 (float64
stays float64), whatever the embeddings' precision and whether or not autocast is on. A term with nothing to
average over is a zero that keeps the graph.
"""
