"""Words of PyTorch and of training: which names and methods in a program speak of gradients."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CREDITS = words("backward manual_backward")
SPENDS = words("step optimizer_step")
ENTRIES = CREDITS | SPENDS
LOUD = (
    CREDITS
    | SPENDS
    | words(
        """zero_grad grad _grad requires_grad requires_grad_ unscale_ no_sync no_backward_sync
        accumulate clip_grad_norm_ clip_grad_value_ clip_grad_norm clip_gradients scale_loss
        toggle_optimizer untoggle_optimizer require_backward_grad_sync set_requires_gradient_sync
        register_step_pre_hook register_step_post_hook register_post_accumulate_grad_hook
        autocast GradScaler add_param_group param_groups load_state_dict set_to_none"""
    )
)
"""Attributes and names whose use is part of a gradient's life."""
WHEN_CALLED = words("step optimizer_step accumulate")
"""Those of them that are also what people call their numbers."""
LOUD_AS_SUCH = LOUD - WHEN_CALLED
WINDOWS = SPENDS | words(
    """zero_grad unscale_ no_sync no_backward_sync require_backward_grad_sync clip_grad_norm_
    clip_grad_value_ clip_grad_norm set_requires_gradient_sync step_update"""
)
"""What is done once for a window, or on all of its micro-batches but one."""
BUILDS = words("parameters named_parameters optim")
"""Those that show where an optimizer is made or parameters are chosen."""
CHANGES = words(
    """append extend insert add update pop remove clear setdefault popleft appendleft train eval to
    cuda cpu half float apply sort reverse add_module register_hook register_buffer load freeze
    register_module register_parameter put push close pop_all"""
)
"""Methods that change what they are called on."""
ACTS = words("step zero_grad backward parameters param_groups unscale_ named_parameters")
"""What shows that a name stands for something that takes part in training."""
OF_TORCH = words("train eval step backward update zero_grad parameters to load_state_dict fit")
"""Methods of modules and optimizers that programs also name their own functions after."""
OF_MODULES = words("parameters named_parameters eval state_dict zero_grad forward cuda to")
OF_NETWORKS = OF_TORCH - words("step backward update fit")
"""Those of them that every network has."""
OF_MADE = words("parameters named_parameters train eval zero_grad")
OF_WEIGHTS = words("state_dict load_state_dict parameters named_parameters")
NO_WORDS: frozenset[str] = frozenset()
OF_OPTIMIZERS = words("zero_grad param_groups")
OF_STEPPED = OF_OPTIMIZERS | words("unscale_ scale")
OWNERS = words("self cls")
OPTIMIZERS = "torch.optim."
SCHEDULES = "torch.optim.lr_scheduler"
OF_SCHEDULES = words("get_last_lr get_lr last_epoch step_update")
OF_SCALERS = words("scale unscale_")
SAVES = words("state_dict save")
"""What is worth running, though nothing is decided by it."""
HANDS_BACK = words("backward manual_backward scale")
"""Functions that are given a loss to go back from."""
DRIVES = words(
    """fit run launch first_step second_step add_event_handler save_state load_state
    automatic_optimization gradient_accumulation_steps"""
)
"""What sets a framework going, or tells it how: read there, not in the program."""
RECORDS = words("CUDAGraph replay")
"""What has a backward run again that was captured."""
KEPT = BUILDS | SAVES | DRIVES | RECORDS
GATHERS = words("append extend add insert register")
"""Methods that keep what they are given, to hand it out later."""
