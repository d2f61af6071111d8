"""A file cannot be read as Python, so that nothing in it was checked.

A syntax error, a stray NUL byte, an encoding that the file does not keep to: `check` names the
place and goes on with the other files. Silence about a file that was never read would be a
promise nobody made.

```python bad static
def train(:  # <-
    pass
```

```python good static
def train():
    pass
```
"""

from gradkeeper.model.finding import Severity
from gradkeeper.model.rule import Rule

rule = Rule("GK000", "unparsable", Severity.ERROR, __doc__)
