"""The linter: rehearses training code without running it, and audits what would happen.

It holds no rules and never imports torch. From the outside in:

- `check`: many files, one program, one source, and the barrier around each
- `files`: which files there are, and what they hold; `config`: which rules speak of them
- `program`: which files belong together, callers first; `parsing`: from bytes to a tree
- `notebook`: cells as one program, and back
- `suppress`: comments and baselines; `fixes`: edits that are tried before they are offered
- `first_design`: the way from trees to findings; see `rehearse`, and what that imports
- `second_design`: what replaces it once it is better by every yardstick; until then it rehearses
  programs on our own engine only: `explore` and `certainty` over `interpreter/` and `libraries/`,
  with `imports` and `guesses`
"""

from gradkeeper.lint.check import check_source
from gradkeeper.lint.program import Checked

__all__ = ["Checked", "check_source"]
