"""The words of PyTorch and its frameworks that a rehearsal understands."""

import re

from gradkeeper.lint.words import words

OPTIMIZERS = words(
    """Adadelta Adafactor Adagrad Adam AdamW SparseAdam Adamax ASGD LBFGS NAdam RAdam RMSprop Rprop
    SGD Muon AdamP SGDP Lamb LAMB Lars LARS Lion Lookahead RangerAdam Ranger Prodigy DAdaptAdam
    BertAdam
    OpenAIAdam FusedAdam FusedSGD FusedLAMB AdamWeightDecayOptimizer Adam8bit AdamW8bit PagedAdamW
    RMSpropTF AdaBelief SophiaG Shampoo SOAP NovoGrad Novograd ClassBalancedSGD CPUAdam
    DeepSpeedCPUAdam ZeroRedundancyOptimizer"""
)
STEPS_ITSELF = frozenset({"LBFGS"})

FUNCTIONAL_LOSSES = words(
    """cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
    binary_cross_entropy_with_logits kl_div cosine_embedding_loss margin_ranking_loss
    triplet_margin_loss hinge_embedding_loss multi_margin_loss multilabel_margin_loss
    multilabel_soft_margin_loss soft_margin_loss ctc_loss poisson_nll_loss gaussian_nll_loss
    triplet_margin_with_distance_loss"""
)
IGNORING = frozenset({"cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss"})

CLIPS = words(
    "clip_grad_norm_ clip_grad_value_ clip_grad_norm clip_gradients clip_grads_with_norm_ "
    "dispatch_clip_grad adaptive_clip_grad clip_grad_norms_"
)

# Calls that make an event of the gradient's life: worth following both branches for.
LOUD_METHODS = CLIPS | words(
    """backward manual_backward step zero_grad unscale_ optimizer_step scale_loss no_sync
    no_backward_sync accumulate autocast requires_grad_ toggle_optimizer untoggle_optimizer
    register_step_pre_hook register_step_post_hook register_post_accumulate_grad_hook"""
)
LOUD_NAMES = CLIPS | frozenset({"autocast", "backward", "set_requires_grad", "requires_grad"})
LOUD_ATTRIBUTES = frozenset({"grad", "requires_grad"})
UNSYNCED = frozenset({"no_sync", "no_backward_sync"})
"""Loud before they are called: whether a backward runs in them is often chosen elsewhere."""

CUTS = words(
    """detach item numpy tolist argmax argmin bool long int eq ne lt gt le ge isnan isinf isfinite
    size dim numel nelement data_ptr detach_ any all topk argsort nonzero element_size"""
)
CUT_FUNCTIONS = words(
    """float int bool str len isinstance hasattr range print repr isnan isinf isfinite argmax
    zeros_like ones_like randn_like rand_like empty_like full_like eq ne accuracy to_numpy round
    tensor as_tensor zeros ones rand randn arange full empty randint eye linspace"""
)
SAME_MODULE_METHODS = words(
    """to cuda cpu half float double bfloat16 train eval apply requires_grad_ compile share_memory
    to_empty xpu"""
)
WRAPPERS = words(
    """DataParallel DistributedDataParallel DDP FullyShardedDataParallel FSDP compile script
    convert_model convert_sync_batchnorm convert_syncbn_model SyncBatchNorm replace_sampler
    compile_model fully_shard parallelize_module setup_module weight_norm spectral_norm
    DistributedDataParallelCPU optimize trace"""
)
DDP = frozenset({"DistributedDataParallel", "DDP"})
PASS_FIRST = words(
    """tqdm track cycle list_ prefetch notebook_tqdm progress_bar iter_ rich_track
    MpDeviceLoader BackgroundGenerator background auto"""
)
EXITS = frozenset({"exit", "quit", "_exit", "abort"})

LAYERS = words(
    """Linear Bilinear LazyLinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d
    ConvTranspose3d LazyConv2d Embedding EmbeddingBag LSTM GRU RNN LSTMCell GRUCell RNNCell
    BatchNorm1d BatchNorm2d
    BatchNorm3d LayerNorm GroupNorm InstanceNorm2d Transformer TransformerEncoder TransformerDecoder
    TransformerEncoderLayer TransformerDecoderLayer MultiheadAttention Parameter PReLU RMSNorm
    SyncBatchNorm InstanceNorm1d InstanceNorm3d LazyConv1d LazyConv3d LazyBatchNorm1d
    LazyBatchNorm2d AdaptiveLogSoftmaxWithLoss
    ParameterList ParameterDict"""
)
COUPLED = frozenset({"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"})
PRETRAINED = words(
    "models from_pretrained hub load_model create_model vgg16 vgg19 pretrained weights"
)

TRAINING = re.compile(
    rb"backward\(|zero_grad|clip_grad_|[sS]caler\(|\.step\(\)|\.step\((?:self\.)?(?:optim|closure)"
)
CREDIT_WORDS = (b"backward(", b"caler(", b"autograd.grad(")
CREDITS = re.compile(
    rb"\.backward\(|manual_backward\(|[sS]caler\(|backward\(\[?loss|autograd\.grad\("
)
SPENDS = re.compile(rb"\.step\(|zero_grad|\.grad\b|[sS]caler\(|_step\(|\bEngine\(|\boptim\.[A-Z]")
"""A step, a zeroing, or an optimizer that is built: one that never steps is a finding, too."""


OTHERS = re.compile(
    rb"^\s*(?:import|from) (?:mxnet|paddle|chainer|mindspore|jittor|tinygrad)\b", re.M
)
"""Libraries with a backward of their own, whose gradients need not add up."""


def may_train(raw: bytes) -> bool:
    """A byte scan: without a backward and something that spends, there is nothing to rehearse."""
    if not any(word in raw for word in CREDIT_WORDS):
        return False  # ten times as fast as the pattern, and true of nearly all files
    if b"import torch" not in raw and b"from torch" not in raw and OTHERS.search(raw):
        return False
    return CREDITS.search(raw) is not None and SPENDS.search(raw) is not None


OPTIMIZER_NAME = re.compile(r"optim|(^|[_.])(opt|optims?|opts)([_.\d]|$)|_opt$|Opt\d*$|^opt[A-Z]")
SCHEDULER_NAME = re.compile(r"sched|(^|_)lr_?(decay)?$|warmup|plateau", re.I)
SCALER_NAME = re.compile(r"scaler", re.I)
MODULE_METHODS = words(
    "parameters named_parameters train eval zero_grad state_dict load_state_dict forward"
)
