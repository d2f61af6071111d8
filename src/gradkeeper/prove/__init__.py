"""Whether a training script resumes exactly: run whole, run with kills, compared.

In the order in which to read them:

proof         the runs, one after the other, and the verdict
verdict       as text, as JSON, as a picture of two words
process       one start of the command, until it ends or all of it is killed; what witnesses wrote
working_copy  a copy of the folder for each run, and what is written beside it
bootstrap     put into every Python that a start runs; waits until torch is imported
witness       in there: writes down what the trainer does, and kills it where planned
diagnosis     where two records part, why, and by how much the parameters differ

Only `witness` imports torch: the rest waits for a job and reads text.
"""

KILLS = 5
"""How many, where nobody says."""
SEED = 0
"""By which they fall."""


class ProveError(Exception):
    """Nothing can be said about the script: the message says why, and what to do."""
