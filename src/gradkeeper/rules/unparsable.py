"""A file cannot be read as Python, so that nothing in it was checked.

A syntax error, a stray NUL byte, an encoding that the file does not keep to: `check` names the
place and goes on with the other files. Silence about a file that was never read would be a
promise nobody made. Source that is valid for a later Python than the one gradkeeper runs on is a
warning, and says which it needs.

```python bad static
def train(:  # <-
    pass
```

To see it, run `python -m py_compile` on the file.

To fix it, mend what that names, or leave the file out of what is checked.

```python good static
def train():
    pass
```
"""

from gradkeeper.model.finding import Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK000", "unparsable", Severity.ERROR, __doc__)
