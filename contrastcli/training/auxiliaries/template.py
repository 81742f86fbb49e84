"""Template denoising: what a prompt and a suffix alone, without a text, have at the mask token."""

from dataclasses import replace

import numpy as np

from contrastcli.data.tokens import Ids, TokenTable
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.training.auxiliaries.auxiliary import Auxiliary
from contrastcli.training.batch import Batch
from contrastcli.training.inputs import Inputs


class TemplateBias(Auxiliary):
    """Adds to a batch the templates of its texts, whose vectors are subtracted before the head and the loss.

    Jiang et al. 2022, "PromptBERT: Improving BERT Sentence Embeddings with Prompts", Section 4 and released code: of a
    text with the vector h at the mask token, h − ĥ is contrasted. ĥ is the vector there of its template alone, whose
    tokens keep their positions around the text, so that there is one ĥ for each length of a text. It has dropout of its
    own and a gradient, and evaluation does not subtract it.
    """

    name = "template"

    def __init__(self, encoder: SentenceEncoder, inputs: Inputs) -> None:
        self.ending = encoder.tokenizer.ending
        ids = encoder.tokenizer.encode([*inputs.prompts.values()], inputs.max_length)
        self.templates = {view: np.array(of, dtype=np.int32) for view, of in zip(inputs.prompts, ids, strict=True)}
        """The tokens of each view's template around an empty text."""

    def extend(self, batch: Batch) -> Batch:
        """The batch with its templates at the end of `texts`, one for each view and length; all in a new table."""
        table, count = batch.table, len(batch.texts)
        templates: list[Ids] = []
        of_texts = np.full(count, -1)
        for number, view in enumerate(batch.views):
            # Views that perturb the anchors have their template.
            ids, texts = self.templates.get(view, self.templates["anchor"]), batch.view(view)
            lengths, which = np.unique(table.lengths[texts] - len(ids), return_inverse=True)
            of_texts[number * len(texts) :][: len(texts)] = count + len(templates) + which
            head, tail = np.split(ids, [len(ids) - self.ending])
            # At the places of the text no token is seen.
            templates += [np.concatenate([head, np.full(max(0, n), ~ids[0]), tail]) for n in lengths.tolist()]
        rows = [table[int(text)] if text >= 0 else ids[:0] for text in batch.texts]
        places = np.where(batch.texts < 0, -1, np.arange(count))
        texts = np.concatenate([places, np.arange(count, count + len(templates))])
        return replace(batch, table=TokenTable.of([*rows, *templates]), texts=texts, templates=of_texts)
