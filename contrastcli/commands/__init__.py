"""What the commands do: a file for each verb. Their names and options are in `cli.py`.

job.py          from typed words to the settings of a run or to a sweep
train.py        preview, start and resume a run
watch.py        follow a run or end it, and say how it has ended
sweep.py        train cells in turn; those of a sweep, and their scores
papers.py       the papers' tables and figures: train their cells, measure and print
track.py        a run's numbers to TensorBoard, trackio, Weights & Biases or MLflow
compare.py      runs side by side, with Welch's test and a paired bootstrap
evaluate.py     measure models on suites, and draw their geometry
encode.py       the sentences of a file to vectors on disk
query.py        the similarity of pairs, the neighbours of a text
data.py         what is in training rows, what is unusual in them, and a file without that
mine.py         pairs to triplets, with hard negatives that a model finds
suggest.py      settings that suit some data, each with its reason, and a trial of them
export/         a model as a folder or as ONNX, checked, with its card
merge.py        weights between a model and runs that began from it, chosen on dev data
verify.py       every file of a run against its checksum and its reader
bench/          speed, next to other software and to the machine's limit
doctor.py       what this machine offers
help.py         the topics of `contrast help`
"""
