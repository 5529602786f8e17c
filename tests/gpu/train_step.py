"""Runs a Llama-style training step in PyTorch (FSDP2 on one GPU, fp32 parameters, bf16 work) at six settings and
compares step time and peak memory with `plan estimate` on a measured profile: train_step.py build/plan node.yaml"""
import json
import os
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

PLAN, PROFILE = sys.argv[1:3]
MOST_TIME_ERROR, MOST_MEMORY_ERROR = 0.08, 0.03
COUNT = 4  # micro-batches of a step
# Llama 3.2: hidden, layers, heads, kv heads, head width, ffn, vocabulary
ONE_B, THREE_B = (2048, 16, 32, 8, 64, 8192, 128256), (3072, 28, 24, 8, 128, 8192, 128256)
# shape, sequence, micro-batch, full recomputation
SETTINGS = [(ONE_B, 2048, 4, False), (ONE_B, 8192, 1, False), (ONE_B, 4096, 8, True),
            (THREE_B, 2048, 1, False), (THREE_B, 4096, 1, False), (THREE_B, 4096, 4, True)]


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        hidden, _, self.heads, self.kv, self.dim, ffn, _ = shape
        self.norm1, self.norm2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.kv) * self.dim, bias=False)
        self.out = nn.Linear(self.heads * self.dim, hidden, bias=False)
        self.up, self.down = nn.Linear(hidden, 2 * ffn, bias=False), nn.Linear(ffn, hidden, bias=False)

    def forward(self, x, sine, cosine):
        b, s, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).split([self.heads * self.dim, self.kv * self.dim, self.kv * self.dim], -1)
        q, k, v = (t.view(b, s, -1, self.dim).transpose(1, 2) for t in (q, k, v))

        def turn(t):
            u, w = t.chunk(2, -1)
            return t * cosine + torch.cat([-w, u], -1) * sine

        a = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True, enable_gqa=self.heads != self.kv)
        x = x + self.out(a.transpose(1, 2).reshape(b, s, -1))
        gate, up = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, shape, recompute):
        super().__init__()
        hidden, layers, vocab = shape[0], shape[1], shape[6]
        self.recompute = recompute
        self.embed, self.norm = nn.Embedding(vocab, hidden), nn.RMSNorm(hidden)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(layers))
        self.head = nn.Linear(hidden, vocab, bias=False)

    def forward(self, tokens, sine, cosine):
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, sine, cosine, use_reentrant=False) if self.recompute else block(x, sine, cosine)
        return self.head(self.norm(x))


def measured(shape, seq, micro, recompute):
    """Median seconds of a step, and the bytes that the GPU has lost to this process at its peak."""
    torch.manual_seed(0)
    model = Decoder(shape, recompute).cuda()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    dim, vocab = shape[4], shape[6]
    angle = torch.outer(torch.arange(seq).float(), 10000 ** (-torch.arange(0, dim, 2).float() / dim)).cuda()
    sine, cosine = (torch.cat([t, t], -1).bfloat16() for t in (angle.sin(), angle.cos()))
    tokens = torch.randint(vocab, (COUNT, micro, seq + 1), device="cuda")

    def step():
        for batch in tokens:
            logits = model(batch[:, :-1], sine, cosine).float()
            F.cross_entropy(logits.view(-1, vocab), batch[:, 1:].reshape(-1)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(4):
        step()
    times = []
    for _ in range(8):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    free, total = torch.cuda.mem_get_info()  # the allocator gives nothing back: this is the peak
    return sorted(times)[len(times) // 2], total - free


def planned(shape, seq, micro, recompute):
    hidden, layers, heads, kv, dim, ffn, vocab = shape
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": hidden,
              "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": dim,
              "intermediate_size": ffn, "vocab_size": vocab, "max_position_embeddings": seq,
              "tie_word_embeddings": False, "rms_norm_eps": 1e-5, "hidden_act": "silu"}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w") as file:
            json.dump(config, file)
        layout = f"tp1,pp1,dp1,mb{micro},zero3" + (",recompute=full" if recompute else "")
        answer = subprocess.run([PLAN, "estimate", "--json", "--model", path, "--gpus", "1", "--seq", str(seq),
                                 "--global-batch", str(micro * COUNT), "--framework", "accelerate", "--layout", layout,
                                 "--profile", PROFILE], capture_output=True, text=True)
    if answer.returncode > 1:
        sys.exit(answer.stderr)
    best = json.loads(answer.stdout)["best"]
    return best["step_time_s"], best["memory"]["peak_bytes"]


def one(index):
    """One setting in a process of its own, so that every one begins with an empty allocator."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29555", RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("nccl")
    print(json.dumps(measured(*SETTINGS[index])))
    torch.distributed.destroy_process_group()


if len(sys.argv) > 3:
    one(int(sys.argv[3]))
    sys.exit(0)
worst_time = worst_memory = 0.0
for i, (shape, seq, micro, recompute) in enumerate(SETTINGS):
    run = subprocess.run([sys.executable, *sys.argv, str(i)], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr[-2000:])
    seconds, peak = json.loads(run.stdout.strip().splitlines()[-1])
    time_error, memory_error = (p / m - 1 for p, m in zip(planned(shape, seq, micro, recompute), (seconds, peak)))
    worst_time, worst_memory = max(worst_time, abs(time_error)), max(worst_memory, abs(memory_error))
    print(f"{'3B' if shape is THREE_B else '1B'} s{seq} mb{micro} {'full' if recompute else 'no'} recompute: "
          f"{seconds:.4f} s, planned {100 * time_error:+.1f} %; {peak / 2**30:.2f} GiB, planned {100 * memory_error:+.1f} %")
print(f"worst: step time {100 * worst_time:.1f} %, peak memory {100 * worst_memory:.1f} %")
sys.exit(0 if worst_time <= MOST_TIME_ERROR and worst_memory <= MOST_MEMORY_ERROR else 1)
