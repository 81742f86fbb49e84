"""Numbers and results as text, charts and pictures."""
