"""Who else trains this model. So far: nobody. What ranks must agree on goes through here."""

import torch.distributed as dist
from torch import Tensor

from gradkeeper.engine.errors import SetupError
from gradkeeper.engine.weights import Tally, Weights


class Alone:
    """One process."""

    def settled(self, weights: Weights, norm: Tensor) -> tuple[float, Tally]:
        """The norm of the summed gradients and the weights, as numbers."""
        return weights.settled(norm)


def ranks() -> Alone:
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise SetupError(
            f"the engine runs in one process, and here are {dist.get_world_size()} ranks: weights "
            "would not be summed over them"
        )
    return Alone()
