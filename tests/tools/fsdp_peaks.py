#!/usr/bin/env python3
"""Most bytes that PyTorch allocates on rank 0 when it trains a transformer under fully_shard, counted by PyTorch itself.

Nothing runs and no GPU is needed: tensors are fake (FakeTensorMode), process groups too, and every storage that an operator
makes, resizes or lets go of is counted while it lives. What is counted are the tensors of PyTorch's own autograd,
checkpointing, fully_shard and AdamW around the plain modules below; kernels' workspaces, NCCL and the CUDA context are not.

The modules say what torchtitan's say (v0.2.2), written here from the shapes alone. On fake CPU tensors two kernels of CUDA
are missing, which are autograd functions here that keep what those keep: the norm its input and the root, and a product of
experts its input and weights. `compiled` stands for torch.compile: rotation, SwiGLU and loss are then one kernel each that
keeps what its min-cut partitioner keeps, which autograd_ledger.py counts. Tensor parallelism is written with the collectives that torchtitan's plan has, on local shapes.
A pipeline is its first stage, whose passes run in the order of 1F1B. The second step is measured.

    pip install torch==2.15.0 && python tests/tools/fsdp_peaks.py > tests/published/fsdp_peaks.csv
"""
import collections
import contextlib
import csv
import itertools
import sys
import types
import weakref

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import torch.distributed._tools.fake_collectives  # noqa: F401: collectives of fake tensors
import torch.distributed.fsdp._fully_shard._fsdp_param_group as param_group
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

Model = collections.namedtuple("Model", "hidden ffn heads kv_heads head_dim vocab experts top_k query_norm")
MODELS = {
    "llama3.2-1b": Model(2048, 8192, 32, 8, 64, 128256, 0, 0, False),
    "llama3-8b": Model(4096, 14336, 32, 8, 128, 128256, 0, 0, False),
    "llama2-13b": Model(5120, 13824, 40, 40, 128, 32000, 0, 0, False),
    "qwen3-32b": Model(5120, 25600, 64, 8, 128, 151936, 0, 0, True),
    "llama3-70b": Model(8192, 28672, 64, 8, 128, 128256, 0, 0, False),
    "qwen3-30b-a3b": Model(2048, 768, 32, 4, 128, 151936, 128, 8, True),
}
Case = collections.namedtuple(
    "Case", "model layers gpus tp pp zero shard seq micro_batch micro_batches recompute mode loss")


CHUNKS = 8  # torchtitan's, of a loss that is taken in chunks


# ---- Counting -------------------------------------------------------------------------------------------------------

class Ledger(TorchDispatchMode):
    """Bytes of the storages that live: what fully_shard gathers and reduces apart from all else."""

    def __init__(self):
        super().__init__()
        self.sizes = {}  # by the storage's identity: bytes, and whether fully_shard made it
        self.live = collections.Counter()
        self.most = 0
        self.inside = 0  # calls of fully_shard's own methods that are open

    def total(self):
        return sum(self.live.values())

    def count(self, tensor):
        tensor = getattr(tensor, "_local_tensor", tensor)  # a DTensor's own storage is a shadow of the whole
        tensor = getattr(tensor, "elem", tensor)  # what a collective hands out is behind a wrapper too
        storage = tensor.untyped_storage()
        key = id(storage)
        if key in self.sizes or storage.nbytes() == 0 and not self.inside:
            return
        who = "sharding" if self.inside else "work"
        self.sizes[key] = (storage.nbytes(), who)
        self.live[who] += storage.nbytes()
        self.most = max(self.most, self.total())
        weakref.finalize(storage, self.forget, key)

    def forget(self, key):
        size, who = self.sizes.pop(key)
        self.live[who] -= size

    def resized(self, storage):
        key = id(storage)
        if key not in self.sizes:
            return
        size, who = self.sizes[key]
        self.sizes[key] = (storage.nbytes(), who)
        self.live[who] += storage.nbytes() - size
        self.most = max(self.most, self.total())

    def __torch_dispatch__(self, func, types_, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_iter(out):
            if isinstance(tensor, torch.Tensor):
                self.count(tensor)
        return out


def watch_resizes(ledger):
    """fully_shard lets go of what it gathered by making the storage empty."""
    resize = torch.UntypedStorage.resize_

    def watched(storage, size):
        resize(storage, size)
        ledger.resized(storage)

    torch.UntypedStorage.resize_ = watched
    return lambda: setattr(torch.UntypedStorage, "resize_", resize)


def watch_sharding(ledger):
    """What fully_shard's own methods make is counted as its own."""
    names = ("unshard", "wait_for_unshard", "reshard", "pre_forward", "post_forward", "pre_backward", "post_backward",
             "finalize_backward")
    group = param_group.FSDPParamGroup
    before = {name: getattr(group, name) for name in names}

    def watched(method):
        def call(*args, **kwargs):
            ledger.inside += 1
            try:
                return method(*args, **kwargs)
            finally:
                ledger.inside -= 1
        return call

    for name in names:
        setattr(group, name, watched(before[name]))
    return lambda: [setattr(group, name, before[name]) for name in names]


class Stream:
    """fully_shard asks its device for streams and events; a CPU has none, and nothing runs."""

    def __init__(self, *_, **__):
        pass

    def wait_stream(self, *_):
        pass

    def wait_event(self, *_):
        pass

    def record_event(self, *_):
        return Event()


class Event(Stream):
    def record(self, *_):
        return self

    def wait(self, *_):
        pass


HANDLE = types.SimpleNamespace(Stream=Stream, Event=Event, current_stream=lambda *_: Stream(),
                               stream=lambda *_: contextlib.nullcontext(), current_device=lambda: 0,
                               is_available=lambda: True, device_count=lambda: 1, set_device=lambda *_: None)


# ---- The kernels that a fake CPU lacks ------------------------------------------------------------------------------

class FusedNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight, x.new_empty(x.shape[:-1], dtype=torch.float32))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        x, weight, _ = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(weight)


class GroupedProduct(torch.autograd.Function):
    """Rows of `x`, sorted by expert, times the weights of their experts: [rows, k] x [experts, k, n]."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x.new_empty(x.shape[0], weight.shape[2])

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(weight)


class OneKernel(torch.autograd.Function):
    """What torch.compile makes of pointwise operators: it keeps `inputs` where they are needed, and makes one output."""

    @staticmethod
    def forward(ctx, keeps, *inputs):
        ctx.save_for_backward(*(inputs if keeps else ()))
        ctx.like = [(tensor.shape, tensor.dtype) for tensor in inputs]
        return torch.empty_like(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        return None, *(grad.new_empty(shape, dtype=dtype) for shape, dtype in ctx.like)


class CompiledLoss(torch.autograd.Function):
    """Cross entropy in one kernel: it keeps the 16-bit logits, and of each row the largest and the sum."""

    @staticmethod
    def forward(ctx, logits):
        ctx.save_for_backward(logits, logits.new_empty(2, logits.shape[0], dtype=torch.float32))
        return logits.new_empty((), dtype=torch.float32)

    @staticmethod
    def backward(ctx, grad):
        return torch.empty_like(ctx.saved_tensors[0])


class SplitLoss(torch.autograd.Function):
    """Cross entropy of logits that are split over the vocabulary, as loss_parallel's operators make it one by one."""

    @staticmethod
    def forward(ctx, logits):  # in fp32
        shifted = logits - logits.amax(dim=-1, keepdim=True)
        total = torch.sum(torch.exp(shifted), dim=-1, keepdim=True)
        result = shifted - torch.log(total)
        ctx.save_for_backward(result)
        return result.new_empty(())

    @staticmethod
    def backward(ctx, grad):
        result, = ctx.saved_tensors
        ones = torch.zeros_like(result)
        return (ones + torch.exp(result)) * grad


def gathered(x, group):
    return collectives.all_gather_tensor_autograd(x, 0, group) if group else x


def scattered(x, group):
    return collectives.reduce_scatter_tensor_autograd(x, "sum", 0, group) if group else x


# ---- The model ------------------------------------------------------------------------------------------------------

class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x):
        return FusedNorm.apply(x, self.weight)


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class Attention(nn.Module):
    def __init__(self, m, case, group):
        super().__init__()
        self.m, self.case, self.group, self.tp = m, case, group, case.tp
        q, kv = m.heads * m.head_dim // case.tp, m.kv_heads * m.head_dim // case.tp
        self.wq, self.wk, self.wv = linear(m.hidden, q), linear(m.hidden, kv), linear(m.hidden, kv)
        self.wo = linear(q, m.hidden)
        if m.query_norm:
            self.q_norm, self.k_norm = Norm(m.head_dim), Norm(m.head_dim)

    def rotated(self, x, turns):
        if self.case.mode == "compiled":
            return OneKernel.apply(False, x)
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns).flatten(3).type_as(x)

    def forward(self, x, turns):
        x = gathered(x, self.group)
        shape = (self.case.micro_batch, self.case.seq, -1, self.m.head_dim)
        q, k, v = self.wq(x).view(shape), self.wk(x).view(shape), self.wv(x).view(shape)
        if self.m.query_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = self.rotated(q, turns), self.rotated(k, turns)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        out = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[0]
        return scattered(self.wo(out.transpose(1, 2).reshape(x.shape[0], -1)), self.group)


class FeedForward(nn.Module):
    def __init__(self, m, case, group):
        super().__init__()
        self.compiled, self.group = case.mode == "compiled", group
        self.w1, self.w3 = linear(m.hidden, m.ffn // case.tp), linear(m.hidden, m.ffn // case.tp)
        self.w2 = linear(m.ffn // case.tp, m.hidden)

    def forward(self, x):
        x = gathered(x, self.group)
        gate, up = self.w1(x), self.w3(x)
        inner = OneKernel.apply(True, gate, up) if self.compiled else F.silu(gate) * up
        return scattered(self.w2(inner), self.group)


class Experts(nn.Module):
    """All experts on every rank, their tokens sorted and every product grouped."""

    def __init__(self, m, case, _):
        super().__init__()
        self.m, self.compiled = m, case.mode == "compiled"
        self.router = linear(m.hidden, m.experts)
        self.w1, self.w3 = (nn.Parameter(torch.empty(m.experts, m.hidden, m.ffn)) for _ in range(2))
        self.w2 = nn.Parameter(torch.empty(m.experts, m.ffn, m.hidden))

    def forward(self, x):
        scores = F.softmax(self.router(x).to(torch.float32), dim=1)
        top, chosen = torch.topk(scores, self.m.top_k, dim=1)
        order = torch.argsort(chosen.view(-1), stable=True)
        token = (order // self.m.top_k).reshape(-1, 1).expand(-1, x.shape[1])
        rows = torch.gather(x, 0, token)
        gate, up = GroupedProduct.apply(rows, self.w1), GroupedProduct.apply(rows, self.w3)
        inner = OneKernel.apply(True, gate, up) if self.compiled else F.silu(gate) * up
        out = GroupedProduct.apply(inner, self.w2)
        unsorted = torch.zeros_like(out).index_put((order,), out).reshape(-1, self.m.top_k, x.shape[1])
        return torch.bmm(top.reshape(-1, 1, self.m.top_k), unsorted.float()).to(x.dtype).squeeze(1)


class Block(nn.Module):
    def __init__(self, m, case, group):
        super().__init__()
        self.attention_norm, self.ffn_norm = Norm(m.hidden), Norm(m.hidden)
        self.attention = Attention(m, case, group)
        self.ffn = (Experts if m.experts else FeedForward)(m, case, group)

    def forward(self, x, turns):
        x = x + self.attention(self.attention_norm(x), turns)
        return x + self.ffn(self.ffn_norm(x))


class Transformer(nn.Module):
    """Of a pipeline the first stage: it has no head."""

    def __init__(self, case, group):
        super().__init__()
        m = MODELS[case.model]
        self.m, self.case, self.group = m, case, group
        self.embedding = nn.Embedding(m.vocab // case.tp, m.hidden)
        self.blocks = nn.ModuleList(Block(m, case, group) for _ in range(case.layers // case.pp))
        self.norm = Norm(m.hidden) if case.pp == 1 else None
        self.head = linear(m.hidden, m.vocab // case.tp) if case.pp == 1 else None
        self.register_buffer("turns", torch.empty(case.seq, 1, m.head_dim // 2, dtype=torch.complex64))

    def forward(self, tokens, reached):
        x = scattered(self.embedding(tokens), self.group)
        for block in self.blocks:
            x = block(x, self.turns)
        reached(x if self.norm is not None else None)
        if self.norm is None:
            return x
        x = gathered(self.norm(x), self.group)
        return x if self.case.loss == "chunked" else self.head(x)


def loss_of(logits, case):
    if case.loss == "compiled":
        return CompiledLoss.apply(logits)
    return SplitLoss.apply(logits.float()) if case.tp > 1 else eager_loss(logits)


def eager_loss(logits):
    return F.cross_entropy(logits.float(), torch.zeros(logits.shape[0], dtype=torch.int64))


def chunked_backward(model, x, case, last):
    """Head and loss for an eighth of the tokens at a time, backwards at once; the gradient of `x` adds up in fp32."""
    head, whole = model.head, torch.zeros_like(x, dtype=torch.float32)
    for i, (part, gradient) in enumerate(zip(x.detach().chunk(CHUNKS), whole.chunk(CHUNKS))):
        part = part.detach().requires_grad_()
        head.set_requires_gradient_sync(last and i == CHUNKS - 1)
        logits = head(part)
        CompiledLoss.apply(logits).backward() if case.mode == "compiled" else eager_loss(logits).backward()
        gradient.add_(part.grad)
    x.backward(whole.to(x.dtype))


# ---- Training it ----------------------------------------------------------------------------------------------------

def recomputing(block, case):
    """torchtitan's checkpoints: whole layers, or every operator but those whose results are dear."""
    if case.recompute == "full":
        return checkpoint_wrapper(block, preserve_rng_state=False)
    kept = (torch.ops.aten.mm.default, torch.ops.aten._scaled_dot_product_flash_attention.default,
            torch.ops._c10d_functional.reduce_scatter_tensor.default)

    def contexts():
        products = collections.Counter()

        def policy(context, func, *_, **__):
            products[context.is_recompute] += func == torch.ops.aten.mm.default
            every_second = func == torch.ops.aten.mm.default and products[context.is_recompute] % 2 == 0
            save = func in kept and not every_second
            return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE

        return create_selective_checkpoint_contexts(policy)

    return checkpoint_wrapper(block, context_fn=contexts, preserve_rng_state=False)


def sharded(model, case, mesh):
    """What torchtitan shards by itself: embedding, every layer, norm and head together, which are not sharded again."""
    again, ranks = case.zero == 3, case.shard or mesh.size()
    options = dict(mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    if case.recompute != "none":
        for i, block in enumerate(model.blocks):
            model.blocks[i] = recomputing(block, case)
    fully_shard(model.embedding, reshard_after_forward=again, **options)
    experts = [module for module in model.modules() if isinstance(module, Experts)]
    columns = {id(p) for module in experts for p in (module.w1, module.w2, module.w3) if p.shape[0] < ranks}
    for block in model.blocks:  # experts fewer than ranks are cut across, so that no rank has padding alone
        fully_shard(block, reshard_after_forward=again,
                    shard_placement_fn=lambda p: Shard(1) if id(p) in columns else None, **options)
    if model.head is not None and case.loss == "chunked":
        fully_shard(model.head, reshard_after_forward=False, **options)
    elif model.head is not None:
        fully_shard([model.norm, model.head], reshard_after_forward=False, **options)
    return fully_shard(model, **options)


def passes(case):
    """Forwards and backwards of one step in their order."""
    if case.pp == 1:
        return "fb" * case.micro_batches
    warm = min(case.pp - 1, case.micro_batches)
    return "f" * warm + "fb" * (case.micro_batches - warm) + "b" * warm


def step(model, case, note):
    """One step without the optimizer's. `note` is called when a micro-batch has been through the layers, until the first
    backward pass, with what the layers leave to the head."""
    waiting, left = collections.deque(), case.micro_batches
    rows = case.micro_batch * case.seq
    for kind in passes(case):
        if kind == "f":
            tokens = torch.zeros(rows, dtype=torch.int64)
            out = model(tokens, note if left == case.micro_batches else lambda _: None)
            waiting.append(out if case.pp > 1 or case.loss == "chunked" else loss_of(out, case))
            del out
            continue
        left -= 1
        if case.pp > 1:  # PipelineStage reduces with the last micro-batch alone
            model.set_requires_gradient_sync(left == 0)
            model.set_reshard_after_backward(left == 0)
        out = waiting.popleft()
        if case.loss == "chunked" and case.pp == 1:
            chunked_backward(model, out, case, left == 0)
            continue
        out.backward(None if case.pp == 1 else torch.empty_like(out))
        del out


def bytes_of(tensors):
    local = (getattr(t, "_local_tensor", t) for t in tensors)
    return sum(t.numel() * t.element_size() for t in local)


def measured(case):
    """weights, gradients, optimizer states, activations of the micro-batches that wait, and the peak: bytes of rank 0."""
    dp = case.gpus // case.tp // case.pp
    shape = ((dp // case.shard, case.shard) if case.shard else (dp,)) + (case.pp, case.tp)
    names = (("replicas", "shard") if case.shard else ("shard",)) + ("pp", "tp")
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
    group = mesh["tp"].get_group() if case.tp > 1 else None
    ranks = mesh["replicas", "shard"] if case.shard else mesh["shard"]
    ledger = Ledger()
    ends = [watch_resizes(ledger), watch_sharding(ledger)]
    try:
        with FakeTensorMode(), ledger:
            model = sharded(Transformer(case, group), case, ranks)
            optimizer = torch.optim.AdamW(model.parameters(), fused=True)
            for _ in range(2):  # the first makes the optimizer's states
                kept, start = [], ledger.live["work"]
                ledger.most = 0
                step(model, case, lambda left: kept.append(
                    ledger.live["work"] - start - (bytes_of([left]) if left is not None else 0)))
                parameters = list(model.parameters())
                gradients = bytes_of(p.grad for p in parameters)
                optimizer.step()
                most = ledger.most
                optimizer.zero_grad()
            states = bytes_of(t for state in optimizer.state.values() for t in state.values() if t.dim() > 0)
            return bytes_of(parameters), gradients, states, max(kept), most
    finally:
        for end in ends:
            end()


# ---- The cases ------------------------------------------------------------------------------------------------------

def cases():
    def case(model, layers, gpus, tp=1, pp=1, zero=3, shard=0, seq=8192, micro_batch=1, micro_batches=1,
             recompute="none", mode="compiled", loss=None):
        return Case(model, layers, gpus, tp, pp, zero, shard, seq, micro_batch, micro_batches, recompute, mode,
                    loss or mode)

    modes, ways = ("compiled", "eager"), ("none", "op", "full")
    for mode, recompute in itertools.product(modes, ways):
        yield case("llama3-8b", 32, 64, recompute=recompute, mode=mode)
        yield case("llama3-8b", 8, 8, recompute=recompute, mode=mode)
    for recompute in ways:
        yield case("llama3-8b", 8, 64, seq=2048, micro_batch=4, recompute=recompute)
        yield case("llama3-8b", 8, 64, zero=2, recompute=recompute)
        yield case("llama3-8b", 8, 64, shard=8, recompute=recompute)
        yield case("llama3-8b", 8, 64, micro_batches=4, recompute=recompute)
        yield case("llama3-8b", 8, 64, tp=2, recompute=recompute)
        yield case("llama3.2-1b", 16, 8, recompute=recompute)
        yield case("llama3.2-1b", 16, 64, micro_batch=2, recompute=recompute, mode="eager")
        yield case("llama3-70b", 12, 256, recompute=recompute)
        yield case("qwen3-32b", 16, 64, recompute=recompute)
    for mode, recompute in itertools.product(modes, ("none", "full")):
        yield case("llama3-8b", 8, 64, tp=8, recompute=recompute, mode=mode)
        yield case("llama3-70b", 16, 64, tp=8, recompute=recompute, mode=mode)
        yield case("llama2-13b", 10, 32, seq=4096, micro_batch=2, recompute=recompute, mode=mode)
        yield case("qwen3-30b-a3b", 12, 64, seq=4096, recompute=recompute, mode=mode)
    for mode in modes:
        yield case("llama3-8b", 8, 64, micro_batch=4, recompute="full", mode=mode)
        yield case("llama3-8b", 8, 64, tp=8, micro_batch=2, recompute="full", mode=mode)
    for zero, recompute in itertools.product((2, 3), ("none", "full")):
        yield case("llama3-8b", 32, 64, pp=4, zero=zero, micro_batches=8, recompute=recompute)
    yield case("llama3-8b", 8, 64, pp=2, zero=2, micro_batches=8, mode="eager")
    yield case("llama3-8b", 8, 64, pp=2, tp=2, zero=2, micro_batches=8)
    yield case("qwen3-30b-a3b", 12, 256, seq=2048, micro_batch=4, recompute="full")
    yield case("llama3-8b", 8, 64, tp=8, recompute="op")
    for name, recompute in itertools.product(("llama3-8b", "llama3-70b"), ("none", "full")):  # weights outweigh tokens
        yield case(name, 4, 64, seq=1024, recompute=recompute)
    for mode, recompute in itertools.product(modes, ("none", "full")):
        yield case("llama3-8b", 8, 64, recompute=recompute, mode=mode, loss="chunked")


def main():
    dist.init_process_group("fake", rank=0, world_size=256, store=FakeStore())
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed") and hasattr(module, "_get_device_handle"):
            module._get_device_handle = lambda *_: HANDLE
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(Case._fields + ("weights", "gradients", "optimizer", "kept", "peak"))
    for case in cases():
        out.writerow(case + measured(case))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
