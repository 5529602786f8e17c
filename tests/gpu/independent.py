"""Measures copy, GEMM and PCIe with PyTorch and compares a profile with them: independent.py node.yaml"""
import re
import sys

import torch


def median_seconds(run, repetitions=30):
    for _ in range(10):
        run()
    times = []
    for _ in range(repetitions):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(5):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / 5)
    return sorted(times)[len(times) // 2]


def grid(text, dtype, orientation):
    """Seconds by shape of one GEMM table."""
    block = re.search(r"- dtype: %s\n\s+orientation: %s\n(.*?)(?=\n  - |\n\w)" % (dtype, orientation), text, re.S)
    rows = re.findall(r"- \[(\d+), (\d+), (\d+), ([\d.e+-]+), [\d.e+-]+\]", block.group(1) if block else "")
    return {(int(m), int(n), int(k)): float(us) * 1e-6 for m, n, k, us in rows}


text = open(sys.argv[1]).read()
worst = 0.0


def compare(what, probed, measured):
    global worst
    off = probed / measured - 1
    worst = max(worst, abs(off))
    print(f"{what:34} probe {probed:10.4g}  PyTorch {measured:10.4g}  {100 * off:+.1f} %")


size = 2**30
a, b = torch.randn(size // 4, device="cuda"), torch.empty(size // 4, device="cuda")
copy = float(re.search(r"copy_gb_s: ([\d.e+]+)", text).group(1))
compare("copy, GB/s", copy, 2 * size / median_seconds(lambda: b.copy_(a)) / 1e9)
shapes = grid(text, "bf16", "tn")
for m, n, k in sorted(shapes, key=lambda s: s[0] * s[1] * s[2])[-5:]:
    x, w = torch.randn(m, k, device="cuda").bfloat16(), torch.randn(n, k, device="cuda").bfloat16()
    compare(f"bf16 {m}x{n}x{k}, us", shapes[m, n, k] * 1e6, median_seconds(lambda: torch.nn.functional.linear(x, w)) * 1e6)
host, there = torch.empty(2**28, dtype=torch.uint8, pin_memory=True), torch.empty(2**28, dtype=torch.uint8, device="cuda")
for key, move in (("h2d", lambda: there.copy_(host, non_blocking=True)), ("d2h", lambda: host.copy_(there, non_blocking=True))):
    rate = float(re.search(key + r"_gb_s: \[?([\d.e+]+)", text).group(1))
    compare(f"{key}, GB/s", rate, 2**28 / median_seconds(move) / 1e9)
print(f"worst {100 * worst:.1f} %")
sys.exit(0 if shapes and worst <= 0.03 else 1)
