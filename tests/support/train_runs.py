"""What tests start as another process: trains or resumes the runs in the folders that are its arguments."""

import sys
from pathlib import Path

from contrastcli.runs.directory import Run
from contrastcli.training.distributed import world
from contrastcli.training.plan import make_plan
from contrastcli.training.process import supervise

if __name__ == "__main__":
    for folder in sys.argv[1:]:
        run = Run(Path(folder))
        supervise(run, make_plan(run.config()), lambda event: None, world())
