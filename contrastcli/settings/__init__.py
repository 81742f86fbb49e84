"""What can be set: settings, objectives, presets and what the papers report. Nothing here imports torch.

setting.py     a setting as a typed field declares it: bounds, unit, help, role
sections.py    the settings that every run has: model, data, dev, train, alerts, track
objective.py   what an objective is: its `Spec` and the base of its settings
losses.py      the settings of each objective that comes with contrast
catalogue.py   all objectives: those of objectives.toml, and those of other packages
similarity.py  similarities of embeddings: formula, curve, margin
metrics.py     the metrics of a dev set: Spearman, nDCG, MRR and others
outside.py     what other packages bring by entry points
other_names.py  what papers and other software call them, for hints
config.py      the settings of a run, stacked from files, presets, environment and flags
presets.py     files of settings, with a base, a grid and what they say of themselves
published.py   the papers' tables (published.toml), and the rows of them that apply to a run
papers.py      the papers' tables as things to train (papers.toml)
suggestions.py  rules that suggest settings for data, each with its reason
memory.py      estimates of GPU memory and hours
"""
