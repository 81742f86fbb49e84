"""What is trained or computed next to the encoder, each through the interface `Auxiliary`.

auxiliary.py  the interface, and how an objective's settings become auxiliaries
teachers.py   teachers that are distilled, and the guide that rejects negatives
views.py      PCL's perturbed views and its second encoder
template.py   PromptBERT's template denoising
mlm.py        the masked-language-model term
mining.py     hard negatives that are mined again every few steps
probes.py     the angles of one's own pairs at every evaluation
exclusions.py  pairs of texts that are no negatives of each other, also added while a run trains
violations.py  the anchors whose hardest negative is closer than their positive
"""
