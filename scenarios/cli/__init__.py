"""Defines the commands; commands only parse, call and print."""

import os
import signal
import sys

if os.path.basename(sys.argv[0]) == "spraylab" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until `main` has its handlers in place nothing is up: a Ctrl-C during the imports ends the program, no more.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
