"""What a profile measured beside what others published of the same GPU: against_published.py node.yaml

Published figures are those of tests/published/hardware.csv; the nearest shape or size within a factor of 1.3 counts.
Prints a line a figure, so that a person sees in a minute what is off; it judges nothing, and ends with 0.
"""
import collections
import csv
import math
import pathlib
import sys

try:
    import yaml
except ImportError:
    print("no PyYAML")
    sys.exit(77)

# Presets, which the probe knows by the driver's name, and the table's names.
NAMES = {
    "a100-sxm-80gb": "A100-SXM", "a100-sxm-40gb": "A100-SXM", "a100-pcie-80gb": "A100-PCIE", "h100-sxm": "H100-SXM",
    "h200-sxm": "H200-SXM", "b200-sxm": "B200-SXM", "b300-sxm": "B300-SXM", "gb200": "GB200", "gb300": "GB300",
    "l40s": "L40S", "rtx-pro-6000": "RTX PRO 6000 Server", "v100-sxm2-16gb": "V100-SXM2",
    "v100-sxm2-32gb": "V100-SXM2",
}
OPS = {"all_reduce": "allreduce", "all_gather": "allgather", "reduce_scatter": "reducescatter", "all_to_all": "alltoall"}
TYPES = {"bf16": ("bfloat16", "bf16"), "fp8": ("fp8", "float8"), "nvfp4": ("nvfp4",), "fp16": ("fp16", "half")}
NEAR = math.log(1.3)


def number(cell):
    """The first of `[value, spread]`, or the value."""
    return float(cell[0] if isinstance(cell, list) else cell)


def published(gpu):
    path = pathlib.Path(__file__).parent.parent / "published" / "hardware.csv"
    rows = collections.defaultdict(list)
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["gpu"] == gpu:
                rows[row["what"]].append(row)
    return rows


def show(what, measured, other, unit, rows):
    print(f"{what:<44}{measured:>10.4g}{other:>12.4g}  {100 * (measured / other - 1):+6.1f} %  {unit:<8} of {rows}")


def median(values):
    return sorted(values)[len(values) // 2]


def gemms(profile, rows):
    for table in profile.get("gemm", []):
        if table.get("orientation") not in ("tn", "forward"):
            continue
        for m, n, k, us, *_ in sorted(table.get("grid", []), key=lambda p: -p[0] * p[1] * p[2])[:4]:
            near = []
            for row in rows["gemm"]:
                shape = row["shape_or_bytes"].split("x")
                if row["dtype"] not in TYPES.get(table["dtype"], ()) or len(shape) != 3:
                    continue
                if max(abs(math.log(float(a) / b)) for a, b in zip(shape, (m, n, k))) < NEAR:
                    near.append(float(row["value"]))
            if near:
                show(f"{table['dtype']} {m:.0f} x {n:.0f} x {k:.0f}", 2 * m * n * k / us / 1e6, median(near), "TFLOP/s",
                     len(near))


def collectives(profile, rows):
    for curve in profile.get("collectives", []):
        layout = curve["layout"]
        if curve["op"] not in OPS or not curve.get("table"):
            continue
        n = layout["n"]
        factor = 2 * (n - 1) / n if curve["op"] == "all_reduce" else (n - 1) / n
        for bytes_, us, *_ in (curve["table"][0], curve["table"][-1]):
            near = [float(row["time_us"]) for row in rows[OPS[curve["op"]]]
                    if row["time_us"] and row["ranks"] == str(n) and row["nodes"] == str(layout.get("nodes", 1))
                    and row["shape_or_bytes"].isdigit()
                    and abs(math.log(float(row["shape_or_bytes"]) / bytes_)) < NEAR]
            if near and bytes_ < 1e6:
                show(f"{curve['op']} n={n}, {bytes_:.0f} B", us, median(near), "us", len(near))
            elif near:
                show(f"{curve['op']} n={n}, {bytes_ / 1e6:.0f} MB", bytes_ * factor / us / 1e3,
                     bytes_ * factor / median(near) / 1e3, "GB/s", len(near))


with open(sys.argv[1]) as file:
    profile = yaml.safe_load(file)
model = profile["gpu"].get("model", "")
gpu = NAMES.get(profile["gpu"].get("preset"))
if gpu is None:
    print(f"nothing is published of `{model}`")
    sys.exit(0)
print(f"{model}, beside what others published of {gpu}:")
print(f"{'':<44}{'measured':>10}{'published':>12}{'':>10}  unit     rows")
rows = published(gpu)
gemms(profile, rows)
collectives(profile, rows)
if "copy_gb_s" in profile.get("hbm", {}):
    near = [float(row["value"]) for what in rows for row in rows[what] if "copy" in what and "GB/s" in row["unit"]]
    if near:
        show("copy in device memory", number(profile["hbm"]["copy_gb_s"]), median(near), "GB/s", len(near))
