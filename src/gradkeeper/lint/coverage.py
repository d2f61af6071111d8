"""What is known of each training loop: rehearsed from where and under which settings, or why not.

Silence about a loop says something only if it was rehearsed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gradkeeper.lint.interpreter.plan import Question
from gradkeeper.lint.libraries.recording import RunTape
from gradkeeper.lint.parsing import TOO_DEEP
from gradkeeper.lint.program import TrainingLoop

ROUNDS = 2
"""Through so many of its rounds, with a step, a loop has shown what it does."""
TOO_LARGE = "it is too large to rehearse"
CUT_SHORT = (TOO_LARGE, TOO_DEEP)
"""Why a run did not come to its own end."""
NEVER = "no run comes to it"
LONGEST = 60


@dataclass(slots=True)
class _LoopStory:
    """What the runs that came to a loop have shown of it."""

    rehearsals: int = 0
    most_rounds: int = 0
    credited: bool = False
    """A loss was sent back in it."""
    stepped: bool = False
    through: bool = False
    begins: dict[str, None] = field(default_factory=dict)
    settings: dict[str, set[bool]] = field(default_factory=dict)
    windows: set[int] = field(default_factory=set)
    ended: bool = False
    """Some run came to its own end, not to that of the budget."""
    clear: bool = False
    """Nothing was in doubt in some run."""
    doubts: dict[str, None] = field(default_factory=dict)


class Coverage:
    """The training loops of a program, as its runs come to them."""

    def __init__(self) -> None:
        self.spent = False
        """The budget was used up before everything was rehearsed."""
        self.unfinished: set[ast.AST] = set()
        """Loops of which more settings would have been tried, had there been no budget."""
        self._stories: dict[ast.AST, _LoopStory] = {}

    def add(
        self,
        begin: str,
        tape: RunTape,
        questions: Iterable[Question],
        *,
        window: int,
        ended: bool,
        doubts: Iterable[str],
    ) -> None:
        """What one run, from where it began, says of the loops that it came to."""
        settings = [question for question in questions if question.fixed]
        doubts = list(doubts)
        for node, rounds in tape.loops.items():
            story = self._stories.setdefault(node, _LoopStory())
            steps = tape.steps_by_loop.get(id(node), 0)
            story.rehearsals += 1
            story.begins[begin] = None
            story.most_rounds = max(story.most_rounds, rounds)
            story.credited = story.credited or id(node) in tape.crediting_loops
            story.stepped = story.stepped or steps > 0
            story.through = story.through or (ended and rounds >= ROUNDS and steps > 0)
            story.windows.add(window)
            story.ended = story.ended or ended
            story.clear = story.clear or not doubts
            story.doubts.update(dict.fromkeys(doubts))
            for setting in settings:
                story.settings.setdefault(setting.condition.text, set()).add(setting.answer)

    def have_shown(self, loops: Iterable[ast.AST]) -> bool:
        """Each of these loops was rehearsed to a step, and without a doubt."""
        return all(self._stories[loop].through and self._stories[loop].clear for loop in loops)

    def came_to(self, node: ast.AST) -> bool:
        """Some run did."""
        return node in self._stories

    def driven(self, nodes: Iterable[ast.AST]) -> list[ast.AST]:
        """Those of these functions that a framework's loop calls."""
        return [node for node in nodes if node in self._stories]

    def told(self, node: ast.AST, place: str) -> TrainingLoop:
        story = self._stories.get(node)
        what = _described(node)
        if story is None:
            left_over = self.spent and says_backward(node)
            return TrainingLoop(place, what, why=TOO_LARGE if left_over else NEVER)
        return TrainingLoop(
            place,
            what,
            why="" if story.through else self._why(story),
            rehearsals=story.rehearsals,
            begins=tuple(story.begins),
            settings=tuple(_settings(story.settings)),
            windows=tuple(sorted(story.windows)),
            doubts=() if story.clear else tuple(story.doubts),
            unfinished=node in self.unfinished,
        )

    def _why(self, story: _LoopStory) -> str:
        if not story.ended:
            return next((reason for reason in CUT_SHORT if reason in story.doubts), TOO_LARGE)
        if story.doubts and not story.clear:
            return next(iter(story.doubts))
        if not story.stepped:
            return "no step follows its backward" if story.credited else "it comes to no backward"
        return "it is left in its first round"


def says_backward(node: ast.AST) -> bool:
    """The loop itself sends a loss back; of others it is only supposed, by names in them."""
    return any(
        isinstance(child, ast.Attribute) and child.attr.endswith("backward")
        for child in ast.walk(node)
    )


def _settings(found: Mapping[str, set[bool]]) -> Iterable[str]:
    for text, answers in found.items():
        if len(answers) > 1:
            yield f"{text} true and false"
        else:
            yield f"{text} {'true' if True in answers else 'false'}"


def _described(node: ast.AST) -> str:
    """How a loop begins, for somebody who looks for it."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        target = ast.unparse(node.target)
        if isinstance(node.target, ast.Tuple):
            target = target[1:-1]
        text = f"for {target} in {ast.unparse(node.iter)}"
    elif isinstance(node, ast.While):
        text = f"while {ast.unparse(node.test)}"
    else:
        text = f"{getattr(node, 'name', 'a function')}(), called by a framework for each batch"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
