"""How the words of a command line become those of a command, and what is said of others.

command.py    commands, groups, and commands with an option for each setting
mistyped.py   what is meant by words that a command does not know, and examples of each command
"""
