"""Runs in a browser of this machine: read-only, live, without anything from outside.

    server    loopback, GET and HEAD, known hosts, a secret in the address
    routes    a way -> an answer; ways are numbers of runs and fixed names, never paths of files
    reading   what a run folder says, again after each commit; what cannot be read is a sentence
    work      who is at work on a run, and how far
    verdicts  words with a colour and a sign; all that depends on how the report shows verdicts
    requests  removals asked for: open, overdue, done
    history   the chain of evidence as a list
    curves    accuracy and loss as pictures
    pages     HTML, in parts that the browser exchanges when they change

Nothing is written, no lock is taken, and no code or configuration of a run is executed.
"""
