"""The full-screen app: a reader of run directories, and a client of the command line, which does all work."""
