"""What a person is told of the way back to a checkpoint's place, in a program of several loops.

The engine counts loops from the program's first line. A program that starts at a later epoch by
itself, as recipes for other tools do, has fewer of them: no count can tell the two apart, a person
can.
"""

import sys


class Way:
    def __init__(self) -> None:
        self.loops = 0
        """How many the checkpoint has seen begin; 0 once the program has come to its place."""
        self._passed = 0

    def pass_over(self) -> None:
        self._passed += 1
        if self._passed == 1 and self.loops > 1:
            _say(
                f"goes on from loop {self.loops} of this program, and hands out nothing in those "
                "before it: a program that resumes starts with its first loop, not a later epoch's"
            )

    def tell_end(self) -> None:
        """As the engine goes, or the program ends. One that never looped only wanted the state."""
        if 0 < self._passed < self.loops:
            _say(
                f"the checkpoint is from loop {self.loops} of the program, and this process ends "
                f"after {self._passed}, with nothing trained: call engine.windows() or batches() "
                "as often as before the save"
            )


def _say(line: str) -> None:
    if sys.stderr is not None:
        print(f"gradkeeper: {line}", file=sys.stderr, flush=True)
