"""The screen Evaluate: suites to run on a model, and their results.

screen.py        the choice of model and suites, the progress, and the tables
picture_view.py  pictures of a model's angles and sentences
"""
