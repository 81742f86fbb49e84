"""The run directory: what it holds, who writes it, and how it is read."""
