"""One file a verb: what the commands of the command line do; `cli.py` has their names and options."""
