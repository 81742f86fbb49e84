"""What data may look like: formats of files, roles of columns, forms of rows. Tables only, which `help` prints."""

from collections.abc import Mapping
from typing import Literal

from contrastcli.settings.objective import Form

FORMATS: Mapping[str, str] = {
    ".txt": "one sentence a line",
    ".csv": "separated by commas, or by what else the first line shows; standard quoting",
    ".tsv": "separated by tabs, quotes are literal",
    ".jsonl": "one object a line, with the keys of the first thousand; a missing one has no value",
    ".json": 'a list of objects, or {"data": [...]}',
    ".parquet": "columns by name",
}
"""The content of a file, by its suffix; each but parquet also compressed, as .gz."""

OTHER_SUFFIXES: Mapping[str, str] = {".ndjson": ".jsonl", ".jsonlines": ".jsonl", ".tab": ".tsv", ".pq": ".parquet"}
"""Other endings of the same formats."""

DELIMITERS: Mapping[str, str] = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""What may separate the fields of a .csv and .tsv; that of the first line is found out."""

LONGEST = 1_000_000
"""Bytes of a line, and characters of a row of a .csv."""
LARGEST_JSON = 1 << 27
"""Bytes of a .json, which may stand on one line."""

Role = Literal["sentence", "anchor", "positive", "negative", "label", "score", "negative_score", "id"]

GRADES = ("relevance", "relevance_score", "grade")
"""Names of scores that say how relevant a document is to a query, 0 for not at all."""

_NAMES_OF_ROLES: Mapping[Role, str] = {
    "sentence": "sentence text",
    "anchor": "anchor premise sentence1 sent0 sentence_a text_a text1 question question1 query instruction",
    "positive": "positive positives hypothesis sentence2 sent1 sentence_b text_b text2 text_pos positive_passages "
    "positive_ctxs question2 answer chosen output passage doc document response pos",
    "negative": "negative negatives hard_neg hard_negatives neg text_neg rejected negative_passages hard_negative_ctxs",
    "label": "label gold_label is_duplicate",
    "score": "score relatedness_score similarity similarity_score pos_scores " + " ".join(GRADES),
    "negative_score": "negative_score negative_scores neg_score neg_scores",
    "id": "id _id",
}

NAMES: Mapping[str, Role] = {name: role for role, names in _NAMES_OF_ROLES.items() for name in names.split()}
"""The role of a column name in lower case. Negatives and their scores may be numbered: negative_1, negative_2 …"""

NAMED = "sentence | anchor, positive, negative | premise, hypothesis, label | sentence1, sentence2, score"
"""Names of the columns of each form, in words."""

LISTED = ("anchor", "positive", "negative", *(f"negative_{number}" for number in range(2, 100)))
"""The columns of rows that are lists of texts, as in sentence-transformers' collections of pairs and triplets."""

LABELS: tuple[str, ...] = ("entailment", "neutral", "contradiction")
"""Names of the labels 0, 1 and 2."""

DIFFERENCE: tuple[Role, ...] = ("anchor", "positive", "negative", "score")
"""The roles of triplets with the difference of a teacher's two scores, as rows for Margin-MSE are published."""

SHAPES: tuple[tuple[Form, tuple[Role, ...]], ...] = (
    ("scored-triplets", ("anchor", "positive", "negative", "score", "negative_score")),
    ("scored-triplets", DIFFERENCE),
    ("scored", ("anchor", "positive", "score")),
    ("triplets", ("anchor", "positive", "negative")),
    ("labelled", ("anchor", "positive", "label")),
    ("pairs", ("anchor", "positive")),
    ("classes", ("sentence", "label")),
    ("classes", ("anchor", "label")),
    ("sentences", ("sentence",)),
    ("sentences", ("anchor",)),
)
"""The roles that make each form."""

FORMS: Mapping[Form, str] = {
    "sentences": "sentences",
    "classes": "sentences with their classes (sentence, label)",
    "pairs": "pairs (anchor, positive)",
    "triplets": "triplets (anchor, positive, negative)",
    "labelled": "labelled pairs (premise, hypothesis, label)",
    "scored": "scored pairs (sentence1, sentence2, score)",
    "scored-triplets": "scored triplets (anchor, positive, negative, score, negative_score)",
}
"""Each form in words."""

BECOMES: Mapping[Form, tuple[Form, ...]] = {
    "scored-triplets": ("triplets", "labelled", "pairs", "sentences"),
    "triplets": ("labelled", "pairs", "sentences"),
    "labelled": ("triplets", "pairs", "sentences"),
    "pairs": ("sentences",),
}
"""The forms that rows of a form can become, the one that keeps most first."""

KINDS: Mapping[str, str] = {
    "blank": "without a text",
    "unlabelled": "without a gold label",
    "unscored": "without a number as score",
    "same": "two of their texts are the same",
    "contradicting": "equal texts with other labels or scores, or positive and negative",
    "repeated": "equal to an earlier row, but for case and white space",
    "near": "equal to an earlier row, but for a few characters",
    "leak": "a text of the dev set",
    "false-negative": "another positive is nearer to both sides than they are to each other",
    "language": "in a language that few rows are in",
    "long": "longer than the model reads",
}
"""What may be unusual in rows, in words. Those later than `near` need dev data, a model, or a package for languages."""

STAYING = ("near", "false-negative", "language", "long")
"""The kinds whose rows stay unless they are dropped by name: some are as they should be."""
