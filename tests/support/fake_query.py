"""Stands in for `contrast --runs-dir DIR query - --json …`: alike is what shares words; the model `none` has an error.

Writes what it was asked to the file that FAKE_QUERY_LOG names, a JSON object a line.
"""

import json
import math
import os
import sys
import time
from pathlib import Path

LOG = "FAKE_QUERY_LOG"
LIMIT = 12
"""Words that it reads, as it says."""
CORPUS = ("a puppy sprints over the grass", "interest rates rose", "no puppy is playing [red]chess[/red]")


def likeness(a: str, b: str) -> dict[str, float]:
    """Cosine and angle of two bags of words; to the starter, some more."""
    first, second = set(a.split()), set(b.split())
    cosine = len(first & second) / math.sqrt(len(first) * len(second))
    cosine += 0.0625 * (sys.argv[-1] == "starter")
    return {"cosine": cosine, "angle_deg": math.degrees(math.acos(min(cosine, 1.0)))}


def answer(line: str, words: list[str]) -> dict[str, object]:
    """What the command prints for a line of input."""
    if "--corpus" not in words:
        a, b = line.split("\t")
        tokens = [len(text.split()) for text in (a, b)]
        return {"a": a, "b": b, **likeness(a, b), "tokens": tokens, "limit": LIMIT}
    count = int(words[words.index("-k") + 1])
    order = sorted(range(len(CORPUS)), key=lambda row: -likeness(line, CORPUS[row])["cosine"])
    neighbours = [{"row": row + 1, "text": CORPUS[row], **likeness(line, CORPUS[row])} for row in order]
    return {"query": line, "neighbours": neighbours[:count]}


def write_log(entry: dict[str, object]) -> None:
    """Add a line to the log."""
    with Path(os.environ[LOG]).open("a", encoding="utf-8") as log:
        log.write(json.dumps({"pid": os.getpid(), **entry}) + "\n")


def report(done: int, words: list[str]) -> None:
    """Progress with a corpus."""
    event = {"event": "progress", "step": 0, "what": "encoding", "done": done, "total": len(CORPUS)}
    if "--corpus" in words:
        print(json.dumps(event), file=sys.stderr)


def main() -> None:
    words = sys.argv[3:]
    model = words[words.index("--model") + 1]
    write_log({"words": words})
    report(1, words)
    for line in map(str.strip, sys.stdin):
        write_log({"asked": line})
        if line == "slow":
            time.sleep(60)
        if model == "none":
            error = {"event": "error", "what": "no model is called none", "remedies": ["check the spelling"]}
            print(json.dumps(error), file=sys.stderr)
            sys.exit(3)
        print(json.dumps(answer(line, words) | {"model": model}), flush=True)
        report(3, words)  # on another pipe, where it may be read after the answer


if __name__ == "__main__":
    main()
