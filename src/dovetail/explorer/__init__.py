"""The explorer, `dovetail ui`: a local web page over the same values that the command line shows.

It computes nothing of its own. A page's state is its address: nothing that a user does is kept on the server but
searches under way, each known by a secret number. What the browser says is a name of a catalogue or text that was
uploaded, never a file of this machine.
"""
