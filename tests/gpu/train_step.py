"""Times a Llama-style training step in PyTorch at six settings and compares `plan estimate` on a measured profile:
train_step.py build/plan node.yaml"""
import json
import os
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

PLAN, PROFILE = sys.argv[1:3]
VOCAB, DIM = 32000, 128
# hidden, layers, heads, kv heads, ffn, seq, micro-batch, micro-batches, full recomputation
SETTINGS = [(2048, 8, 16, 16, 5632, 2048, 4, 2, False), (2048, 8, 16, 4, 5632, 8192, 1, 2, False),
            (4096, 4, 32, 8, 14336, 4096, 1, 4, False), (4096, 4, 32, 8, 14336, 4096, 2, 2, True),
            (5120, 3, 40, 8, 13824, 4096, 1, 4, False), (8192, 2, 64, 8, 28672, 2048, 1, 4, True)]


class Block(nn.Module):
    def __init__(self, hidden, heads, kv, ffn):
        super().__init__()
        self.heads, self.kv = heads, kv
        self.norm1, self.norm2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.qkv = nn.Linear(hidden, (heads + 2 * kv) * DIM, bias=False)
        self.out = nn.Linear(heads * DIM, hidden, bias=False)
        self.up, self.down = nn.Linear(hidden, 2 * ffn, bias=False), nn.Linear(ffn, hidden, bias=False)

    def forward(self, x, sine, cosine):
        b, s, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).split([self.heads * DIM, self.kv * DIM, self.kv * DIM], -1)
        q, k, v = (t.view(b, s, -1, DIM).transpose(1, 2) for t in (q, k, v))

        def turn(t):
            u, w = t.chunk(2, -1)
            return t * cosine + torch.cat([-w, u], -1) * sine

        a = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True, enable_gqa=self.heads != self.kv)
        x = x + self.out(a.transpose(1, 2).reshape(b, s, -1))
        gate, up = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


def measured_seconds(hidden, layers, heads, kv, ffn, seq, micro, count, recompute):
    torch.manual_seed(0)
    blocks = nn.ModuleList(Block(hidden, heads, kv, ffn) for _ in range(layers)).cuda().bfloat16()
    embed, head = nn.Embedding(VOCAB, hidden).cuda().bfloat16(), nn.Linear(hidden, VOCAB, bias=False).cuda().bfloat16()
    norm = nn.RMSNorm(hidden).cuda().bfloat16()
    parameters = [p for part in (blocks, embed, head, norm) for p in part.parameters()]
    masters = [p.detach().float().requires_grad_() for p in parameters]
    optimizer = torch.optim.AdamW(masters, fused=True)
    angle = torch.outer(torch.arange(seq).float(), 10000 ** (-torch.arange(0, DIM, 2).float() / DIM)).cuda()
    sine, cosine = (torch.cat([t, t], -1).bfloat16() for t in (angle.sin(), angle.cos()))
    tokens = torch.randint(VOCAB, (count, micro, seq + 1), device="cuda")

    def step():
        for batch in tokens:
            x = embed(batch[:, :-1])
            for block in blocks:
                x = checkpoint(block, x, sine, cosine, use_reentrant=False) if recompute else block(x, sine, cosine)
            logits = head(norm(x)).float()
            F.cross_entropy(logits.view(-1, VOCAB), batch[:, 1:].reshape(-1)).backward()
        for master, p in zip(masters, parameters):
            master.grad = p.grad.float()
            p.grad = None
        optimizer.step()
        with torch.no_grad():
            for master, p in zip(masters, parameters):
                p.copy_(master)

    for _ in range(4):
        step()
    times = []
    for _ in range(8):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def planned_seconds(hidden, layers, heads, kv, ffn, seq, micro, count, recompute):
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": hidden, "num_hidden_layers": layers,
              "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": DIM, "intermediate_size": ffn,
              "vocab_size": VOCAB, "max_position_embeddings": seq, "tie_word_embeddings": False, "rms_norm_eps": 1e-5,
              "hidden_act": "silu"}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        json.dump(config, open(path, "w"))
        layout = f"tp1,pp1,dp1,mb{micro},zero0" + (",recompute=full" if recompute else "")
        answer = subprocess.run([PLAN, "estimate", "--json", "--model", path, "--gpus", "1", "--seq", str(seq), "--global-batch",
                                 str(micro * count), "--layout", layout, "--profile", PROFILE], capture_output=True, text=True)
    if answer.returncode > 1:
        sys.exit(answer.stderr)
    best = json.loads(answer.stdout)["best"]
    return best["step_time_s"], best["step_time_low_s"], best["step_time_high_s"]


errors, inside = [], 0
for setting in SETTINGS:
    seconds = measured_seconds(*setting)
    torch.cuda.empty_cache()
    planned, low, high = planned_seconds(*setting)
    errors.append(abs(planned / seconds - 1))
    inside += low <= seconds <= high
    print(f"{str(setting):58} measured {seconds:7.4f} s  planned {planned:7.4f} s  {100 * (planned / seconds - 1):+.1f} %")
errors.sort()
print(f"median error {100 * (errors[2] + errors[3]) / 2:.1f} %, worst {100 * errors[-1]:.1f} %, {inside} of 6 inside the interval")
sys.exit(0 if (errors[2] + errors[3]) / 2 <= 0.10 else 1)
