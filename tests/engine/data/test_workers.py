"""A DataLoader with workers, which draw random numbers of their own."""

from typing import Any

import pytest

from tests.checkpoint.same import same
from tests.engine.data.interrupting import in_parts, plainly
from tests.engine.data.loaders import MAPPED, Make, prepared

STAYING = {"leaving": False, "staying": True}


@pytest.mark.parametrize("staying", STAYING.values(), ids=STAYING)
@pytest.mark.parametrize("make", MAPPED.values(), ids=MAPPED)
def test_a_run_cut_after_some_batches_equals_the_plain_loop(make: Make, staying: bool) -> None:
    def built() -> Any:
        return make(None, num_workers=2, persistent_workers=staying)

    plain = plainly(built, epochs=3)

    length = (len(plain) - 1) // 3
    assert same(in_parts(built, [], epochs=3), plain)
    for parts in ([1], [length], [length + 1, 1], [2, 0, length + 1, 2]):
        assert same(in_parts(built, parts, epochs=3), plain), parts
