"""A file could not be checked to its end, so that silence about it means nothing.

Either gradkeeper itself failed on the file, which is a bug of ours, or the file asks for more work
than a check may take: a chain of a thousand `elif`, loops thirty deep, megabytes of source. The
reason stands in the message. The other files are checked all the same, and the exit code is 2,
because the check was not complete.

To see it, run `gradkeeper check --traceback` on the file: it shows where gradkeeper failed.

To fix it, report what that shows; where the file is too large or too deep, move the training loop
into a file of its own. `--ignore GK001` accepts that the file is not checked.
"""

from gradkeeper.model.finding import Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK001", "not-checked", Severity.WARNING, __doc__)
