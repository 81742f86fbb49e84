"""Models: texts to vectors, and the folders that they are read from and saved to.

locate.py    names of models (folder, run, hub, starter), each resolved once
contract.py  how token vectors become embeddings, and after which prompts texts are read
prompts.py   prompts by name, and as a setting changes them
folder.py    a model folder in sentence-transformers' layout, read and written
merging.py   weights between those of a base and of runs
weights.py   published weights as tensors, and the errors of broken folders
adapters.py  LoRA, and freezing: what of a backbone is trained
backbone.py  a pretrained encoder or decoder: the BERT family, any other through transformers
bert/        the BERT family's network, and what makes it fast
encoder.py   the sentence encoder: a backbone under its contract
static.py    static models, of a vector for each token: read, and distilled from another model
pooling.py   token vectors to a sentence vector, and the layers that may follow
workers.py   chunks of texts side by side on the cores of a CPU
devices.py   device, precision (what auto means) and memory
vectors.py   files of vectors, and a cache of them
search.py    nearest neighbours
mining.py    hard negatives by exact search, and a teacher's scores of them
metrics.py   cosines, correlations, alignment and uniformity
"""
