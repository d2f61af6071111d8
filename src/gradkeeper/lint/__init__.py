"""The linter: rehearses training code without running it, and audits what would happen.

It holds no rules and never imports torch. See `rehearse` for the way from source to tapes.
"""

from gradkeeper.lint.check import Checked, check_source

__all__ = ["Checked", "check_source"]
