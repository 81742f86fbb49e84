"""The BERT family (BERT, RoBERTa, XLM-R, DistilBERT, MPNet, ModernBERT) without transformers, over published weights.

network.py   the encoder and its masked-language-model head
cpu.py       what makes the encoder fast on a CPU: bf16 products, no padding, dropout
graphs.py    what makes it fast on a GPU where batches are small: CUDA graphs
packed.py    a copy for encoding on a CPU, in fp32, bf16 or int8
families.py  how the models of the family differ: names, config keys, positions
"""
