"""The screen Evaluate: suites to run on a model, and their results.

screen.py  the choice of model and suites, the progress, the tables and pictures
viewer.py  pictures as files, opened by the system's viewer
"""
