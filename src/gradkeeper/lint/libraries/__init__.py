"""Stand-ins for what programs import, by full dotted names: ordinary classes that emit events.

leaves            parameters that were never told apart, and how they are
factors           what a loss is multiplied by on its way
recording         the tape of a run while it is being written
finished_tape     what is settled when it has ended: whose parameters, which losses, which accounts
provenance        where a value comes from, and the modes in which it is computed
gradients         what happens to gradients and weights: backward(), and by hand
tensors           tensors, parameters and `.grad`, as a program sees them
parameters        model.parameters() and its like: which parameters a value stands for
data              loaders and samplers: what they hand out, in which order, from where on
datasets          tensors that a program makes itself, their rows, datasets of them
nn                torch.nn: modules, layers, losses
optim             torch.optim: optimizers, their groups, schedulers
amp               torch.amp: autocast and gradient scaling
roles             what an unknown value is taken for, by what is done with it
unseen_code       code that is not seen: what it is given, and what it may have done with that
unknowns          calls of unknown values and of their methods
torch             torch itself, by dotted names: functions, modes, data, wrappers
distributed       ranks: FSDP2, ZeRO, RPC optimizers, horovod, torch_xla
builtins          Python's own functions: range, isinstance, filter and the like
iterators         itertools
attribute_dicts   EasyDict, Munch and their like: dicts whose entries are attributes
standard_library  Python's modules, numpy and tqdm, as far as programs that train use them
accelerate        Accelerate: windows, prepared optimizers and schedulers
fabric            Lightning Fabric
trainer_loops     frameworks that call the program, and in which order
lightning         LightningModule, by hand and automatic
transformers      Trainer subclasses, schedules, networks with a loss of their own; peft, diffusers
ignite            ignite's engines and handlers
deepspeed         an engine that divides, steps and zeroes by itself
apex              amp.initialize, scale_loss, master_params
timm              scalers that scale, step and update in one call
networks          networks and losses of torchvision, timm, PyG, monai and others
other_optimizers  optimizers of other packages; opacus, composer, SAM
gradkeeper        the engine of this package, and what a loop by hand left in its windows
registry          all of them together, as the machine asks
"""
