"""What the app's forms are made of, and where their values come from.

choice_field.py  a value chosen from a list, and the list, which is narrowed by typing
model_field.py   the field that names a model
columns.py       the columns of a file, each with a role to choose from a table
completion.py    what may be typed into a field apart from its list: paths, models, values used before
"""
