"""The linter: rehearses training code without running it, and audits what would happen.

It holds no rules and never imports torch. From the outside in:

check         many files, one program, one source, and the barrier around each
incremental   a project that is checked again and again: only what has changed is rehearsed
files         which files there are, and what they hold
config        which rules speak of them
program       which files belong together, callers first
parsing       from bytes to a tree
columns       columns as people count them
notebook      cells as one program, and back
rehearse      from the trees of a program to what is said of each file
explore       which runs: where they begin, which answers they try, when it is enough
run           one run along a plan: what was answered, what happened, what the rules say of it
roots         how it begins: a script, or a function called as its unknown caller would
closed_world  what may have been done out of sight, and which rules mind
doubts        whether a run's word counts: that, and losses that were not followed
coverage      what is known of each training loop: rehearsed from where, or why not
certainty     from many runs to findings: certain, certain under a setting, possible
interpreter   Python, and nothing of torch: runs a program on values that may be unknown
libraries     stand-ins for what programs import, by full dotted names
imports       which file of the project a module's name stands for
guesses       the only place that looks at the user's names
suppress      what is known and accepted: comments and baselines
fixes         edits that are tried before they are offered
"""

from gradkeeper.lint.check import check_source
from gradkeeper.lint.program import Checked

__all__ = ["Checked", "check_source"]
