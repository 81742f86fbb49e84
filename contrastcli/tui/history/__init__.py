"""A run's events as the numbers that the app draws, kept up to date while the run trains.

history.py  all that is known of a run so far, and the metrics that have a curve
series.py   numbers over steps or minutes, and the line that draws them
feed.py     reads a run's events as they come, without delaying the app
"""
