"""Whether a training script resumes exactly: run whole, run with kills, compared.

proof      the runs, one after the other       telling    the verdict, as text and JSON
running    one start of the command            workplace  a copy of the folder for each run
bootstrap  put into every Python it starts     witness    what the trainer in it does
digest     state as a few bytes                record     what the witness wrote, read back
diagnosis  where two records part, and why     weights    by how much the parameters differ
killed     what the run with kills tells       checking   whether a run can be compared with
killing    all processes of a start, at once   verdict    what is found out in the end
outputs    files written outside of the copy

Only `witness`, `digest` and `weights` import torch: the rest waits for a job and reads text.
"""
