"""Training: a plan becomes steps, and these become events and checkpoints.

plan.py         what a run will do, from its settings and data, before weights are loaded
setup.py        from a plan to a trainer: weights, tokens, heads, optimiser, fresh or restored
process.py      inside the process that trains a run: signals, the first and the last event
session.py      what ties a training to that process: events, stop requests, other processes
loop.py         the trainer: steps, logging, evaluation, saving, early stopping
inputs.py       the texts of a corpus after their prompts, tokenised once
batch.py        the texts of a step, its chunks, and the seeds of their dropout
step.py         one step's gradient, by kept graphs or the gradient cache
passes.py       the two passes of chunks through their encoders
auxiliaries/    what is trained or computed next to the encoder: teachers, views, templates, MLM, mining
optim.py        optimiser, learning rate, clipping
distributed.py  several processes as one
equalities.py   what must be equal of an adapter, measured at the end of its run
checkpoint.py   checkpoints: written, pruned, restored
dev.py          the dev set's score while training
angles.py       a batch in degrees
system.py       samples of the GPU, memory and disk
environment.py  the record of versions, devices and data
"""
