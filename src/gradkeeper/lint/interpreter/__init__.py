"""Python, and nothing of torch: runs a program on values that may be unknown, along one plan.

values       what an expression can stand for: known, unknown, one of two; each answers for itself
containers   lists, tuples, sets, dicts, ranges, and their methods
objects      functions, classes, objects, iterators, and the base of stand-ins for libraries
vocabulary   words of PyTorch and of training
syntax       small questions to a syntax tree
lines        a file read into lines: each statement with its words, what it assigns
relevance    which lines can matter to training; the others are skipped
survey       which functions credit and spend, which loops train
facts        all that one look at the source tells, as runs ask for it
plan         what one run answers to open questions, and those that it met
frames       where a run is: variables of calls and modules, the loops around it
state        what a run carries: answers to its questions, writes that can be undone
expressions  from syntax to values
statements   what a block does, and which way it leaves
machine      calls, classes, generators and imports on top: the whole
"""
