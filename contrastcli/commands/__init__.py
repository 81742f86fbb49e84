"""One file per command: what it does once its words are understood."""
