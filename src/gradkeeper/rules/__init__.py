"""The rules, one fault per file. A rule reads one entry and keeps no memory.

Each file's docstring is the rule's document and its test: `gradkeeper explain GK101` prints it.

unparsable                GK000 a file cannot be read as Python
not_checked               GK001 a file could not be checked to its end
stale_gradient            GK101 a step applies a gradient that was applied before
discarded_gradient        GK102 gradients are zeroed before any step could apply them
empty_step                GK103 an optimizer steps, and never had a gradient to apply
foreign_gradient          GK104 a step applies leftovers of another optimizer's loss
orphan_parameter          GK105 a parameter receives gradients, and no optimizer owns it
starved_parameter         GK106 an optimizer's parameter never receives a gradient
never_stepped             GK107 an optimizer's gradients are produced, and it never steps
unnormalised_window       GK201 mean losses of several batches are added, never divided
uneven_window             GK202 a window holds more or fewer batches than it is divided by
dropped_tail              GK203 the last, incomplete window is never applied
mean_of_means             GK204 batches with different numbers of items weigh the same
scheduler_out_of_step     GK205 the scheduler moves on other than once for each step
batch_coupled_window      GK206 a layer that couples a batch lies inside a window
window_divided_twice      GK207 losses are divided by the window's length, and then again
clip_scaled_gradient      GK301 gradients are clipped while multiplied by the loss scale
scaler_bypassed           GK302 a scaled loss is stepped without the scaler, or the reverse
scaler_not_updated        GK303 the scaler steps without `update()`, or has it in a window
misplaced_clip            GK304 gradients are clipped where that is no use
nonfinite_spent           GK305 a gradient with NaN or inf in it reaches the weights
exhausted_parameters      GK306 a one-shot iterator of parameters is used a second time
fp16_without_scaler       GK307 a float16 loss is sent back without a scaler
pending_not_saved         GK401 a checkpoint is written while gradients wait, without them
pending_zeroed_on_resume  GK402 gradients that a checkpoint brought back are zeroed
gradient_outlives_load    GK403 gradients of the old weights are applied to loaded ones
optimizer_not_restored    GK404 weights go on from a checkpoint, their optimizer does not
data_starts_over          GK405 a loader is told where to go on after its iterator was made
unsynced_spend            GK501 a step applies gradients that were not exchanged
sync_every_microbatch     GK502 the ranks exchange gradients on every micro-batch
ranks_disagree            GK503 the ranks stepped, skipped or filled windows differently
replicas_differ           GK504 ranks that should hold the same weights do not
same_epoch_order          GK505 a distributed sampler gives every epoch the same order
none_grad_access          GK601 `p.grad` is used in place where it may be None
zero_scope_mismatch       GK602 what is zeroed is not all of what is stepped
late_zero                 GK603 `zero_grad()` stands between forward and backward
optimizer_in_loop         GK604 an optimizer that remembers is built anew for each step
swallowed_fault           GK605 an interrupted batch's gradients are applied later
graph_kept_alive          GK606 a total of losses keeps the graph of every one of them
"""

from gradkeeper.model.rule import Rule
from gradkeeper.rules import (
    batch_coupled_window,
    clip_scaled_gradient,
    data_starts_over,
    discarded_gradient,
    dropped_tail,
    empty_step,
    exhausted_parameters,
    foreign_gradient,
    fp16_without_scaler,
    gradient_outlives_load,
    graph_kept_alive,
    late_zero,
    mean_of_means,
    misplaced_clip,
    never_stepped,
    none_grad_access,
    nonfinite_spent,
    not_checked,
    optimizer_in_loop,
    optimizer_not_restored,
    orphan_parameter,
    pending_not_saved,
    pending_zeroed_on_resume,
    ranks_disagree,
    replicas_differ,
    same_epoch_order,
    scaler_bypassed,
    scaler_not_updated,
    scheduler_out_of_step,
    stale_gradient,
    starved_parameter,
    swallowed_fault,
    sync_every_microbatch,
    uneven_window,
    unnormalised_window,
    unparsable,
    unsynced_spend,
    window_divided_twice,
    zero_scope_mismatch,
)

ALL: tuple[Rule, ...] = (
    unparsable.rule,
    not_checked.rule,
    stale_gradient.rule,
    discarded_gradient.rule,
    empty_step.rule,
    foreign_gradient.rule,
    orphan_parameter.rule,
    starved_parameter.rule,
    never_stepped.rule,
    unnormalised_window.rule,
    uneven_window.rule,
    dropped_tail.rule,
    mean_of_means.rule,
    scheduler_out_of_step.rule,
    batch_coupled_window.rule,
    window_divided_twice.rule,
    clip_scaled_gradient.rule,
    scaler_bypassed.rule,
    scaler_not_updated.rule,
    misplaced_clip.rule,
    nonfinite_spent.rule,
    exhausted_parameters.rule,
    fp16_without_scaler.rule,
    pending_not_saved.rule,
    pending_zeroed_on_resume.rule,
    gradient_outlives_load.rule,
    optimizer_not_restored.rule,
    data_starts_over.rule,
    unsynced_spend.rule,
    sync_every_microbatch.rule,
    ranks_disagree.rule,
    replicas_differ.rule,
    same_epoch_order.rule,
    none_grad_access.rule,
    zero_scope_mismatch.rule,
    late_zero.rule,
    optimizer_in_loop.rule,
    swallowed_fault.rule,
    graph_kept_alive.rule,
)
