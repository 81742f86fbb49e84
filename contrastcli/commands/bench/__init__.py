"""`contrast bench`.

speed.py   speed, as a share of the machine's limit
peer.py    the same work by other software
"""
