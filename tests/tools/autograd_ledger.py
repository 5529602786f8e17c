#!/usr/bin/env python3
"""Bytes that PyTorch keeps of one transformer block between forward and backward, counted by autograd itself.

Nothing runs: tensors are fake (FakeTensorMode), so any width fits on a laptop. `eager` counts the storages that the
autograd graph saves; `compiled` traces forward and backward together and counts what the min-cut partitioner of
torch.compile hands from one to the other. Attention is ATen's fused kernel.
Weights do not count, a tensor and its views count once.

    pip install torch==2.15.0 && python tests/tools/autograd_ledger.py > tests/published/autograd_ledger.csv
"""
import csv
import sys

import torch
import torch.nn.functional as F
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._subclasses.fake_tensor import FakeTensorMode

TOKENS = 1024
VIEWS = ("view", "reshape", "permute", "t.default", "transpose", "squeeze", "clone", "detach")
# name, hidden, ffn, heads, kv heads, head width, experts, experts of a token, width of an expert
SHAPES = [
    ("llama3.2-1b", 2048, 8192, 32, 8, 64, 0, 0, 0),
    ("llama3.2-3b", 3072, 8192, 24, 8, 128, 0, 0, 0),
    ("llama2-7b", 4096, 11008, 32, 32, 128, 0, 0, 0),
    ("llama3-8b", 4096, 14336, 32, 8, 128, 0, 0, 0),
    ("llama2-13b", 5120, 13824, 40, 40, 128, 0, 0, 0),
    ("qwen3-32b", 5120, 25600, 64, 8, 128, 0, 0, 0),
    ("yi-34b", 7168, 20480, 56, 8, 128, 0, 0, 0),
    ("llama3-70b", 8192, 28672, 64, 8, 128, 0, 0, 0),
    ("mixtral-8x7b", 4096, 0, 32, 8, 128, 8, 2, 14336),
    ("qwen3-30b-a3b", 2048, 0, 32, 4, 128, 128, 8, 768),
]


def eager_norm(x, weight):
    """transformers' LlamaRMSNorm."""
    wide = x.float()
    normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * normed.to(x.dtype)


class FusedNorm(torch.autograd.Function):
    """What ATen's CUDA kernel `_fused_rms_norm` saves: its input and one fp32 number a row. The CPU takes it apart."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, x.new_empty(x.shape[:-1], dtype=torch.float32), weight)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.sum((0, 1))


def compiled_norm(x, weight):
    return F.rms_norm(x, [x.shape[-1]], weight, 1e-6)


def block(shape, norm, expanded, x, w):
    _, hidden, ffn, heads, kv_heads, width, experts, top_k, expert_ffn = shape
    batch, tokens, _ = x.shape
    y = norm(x, w["norm1"])
    q = (y @ w["q"]).view(batch, tokens, heads, width)
    k = (y @ w["k"]).view(batch, tokens, kv_heads, width)
    v = (y @ w["v"]).view(batch, tokens, kv_heads, width)
    cos = w["cos"].view(1, tokens, 1, width)
    q, k = q * cos, k * cos  # rotation: saves the constant table only
    if expanded or heads == kv_heads:
        repeat = heads // kv_heads
        k, v = (t[:, :, :, None, :].expand(batch, tokens, kv_heads, repeat, width).reshape(batch, tokens, heads, width)
                for t in (k, v))
    out = attention(q, k, v)
    h = x + out.reshape(batch, tokens, heads * width) @ w["o"]
    y = norm(h, w["norm2"])
    if experts == 0:
        return h + (F.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"]
    return h + routed(y.reshape(batch * tokens, hidden), w, experts, top_k).view(batch, tokens, hidden)


def routed(y, w, experts, top_k):
    """torchtitan's grouped experts with forced balance: scores weigh the outputs in fp32."""
    scores = torch.softmax((y @ w["router"]).float(), -1)
    chosen = scores[:, :top_k]  # forced balance: which expert does not change what is kept
    rows = y[:, None, :].expand(-1, top_k, -1).reshape(experts, -1, y.shape[-1])
    inner = F.silu(torch.bmm(rows, w["gate"])) * torch.bmm(rows, w["up"])
    out = torch.bmm(inner, w["down"]).view(-1, top_k, y.shape[-1])
    return torch.bmm(chosen[:, None, :], out.float()).squeeze(1).to(y.dtype)


def attention(q, k, v):
    """ATen's fused kernel: saves q, k, v, output and the fp32 log of the sums."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)[0].transpose(1, 2)


def weights(shape):
    _, hidden, ffn, heads, kv_heads, width, experts, _, expert_ffn = shape
    make = lambda *size: torch.empty(*size, dtype=torch.bfloat16, requires_grad=True)
    w = {"norm1": make(hidden), "norm2": make(hidden), "q": make(hidden, heads * width), "k": make(hidden, kv_heads * width),
         "v": make(hidden, kv_heads * width), "o": make(heads * width, hidden),
         "cos": torch.empty(TOKENS, width, dtype=torch.bfloat16)}
    if experts:
        w |= {"router": make(hidden, experts), "gate": make(experts, hidden, expert_ffn),
              "up": make(experts, hidden, expert_ffn), "down": make(experts, expert_ffn, hidden)}
    else:
        w |= {"gate": make(hidden, ffn), "up": make(hidden, ffn), "down": make(ffn, hidden)}
    return w


def eager_bytes(run, x, w):
    held = {}
    skip = {t.untyped_storage()._cdata for t in w.values()}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in skip:
            held[storage._cdata] = (storage, storage.nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = run(x, w)
    del result
    return sum(size for _, size in held.values())


def compiled_bytes(run, x, w):
    names = list(w)
    args = [x] + [w[name] for name in names]
    joint = aot_export_joint_simple(lambda x, *rest: (run(x, dict(zip(names, rest))),), args, trace_joint=True)
    forward, _ = min_cut_rematerialization_partition(joint, None, num_fwd_outputs=1)
    nodes = list(forward.graph.nodes)
    seen, total = set(), 0
    for node in nodes[-1].args[0][1:]:
        root = node
        # The copy behind attention is none on a GPU, where the kernel writes its output row by row.
        while root.op == "call_function" and any(word in str(root.target) for word in VIEWS):
            root = root.args[0]
        value = root.meta.get("val")
        weight = root.op == "placeholder" and root is not nodes[0]
        if root in seen or weight or not isinstance(value, torch.Tensor):
            continue
        seen.add(root)
        total += value.numel() * value.element_size()
    return total


def main():
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow("shape hidden ffn heads kv_heads head_dim experts top_k expert_ffn mode norm kv bytes_per_token".split())
    for shape in SHAPES:
        for mode in ("eager", "compiled"):
            for norm in ("fused", "eager") if mode == "eager" else ("fused",):
                for kv in ("native", "expanded"):
                    if kv == "expanded" and shape[3] == shape[4]:
                        continue
                    with FakeTensorMode(allow_non_fake_inputs=True):
                        x = torch.empty(1, TOKENS, shape[1], dtype=torch.bfloat16, requires_grad=True)
                        kernel = compiled_norm if mode == "compiled" else FusedNorm.apply if norm == "fused" else eager_norm
                        run = lambda x, w: block(shape, kernel, kv == "expanded", x, w)
                        count = eager_bytes if mode == "eager" else compiled_bytes
                        size = count(run, x, weights(shape))
                    out.writerow(list(shape) + [mode, norm, kv, f"{size / TOKENS:g}"])
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
