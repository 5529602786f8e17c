"""expect.json of files that `plan emit` wrote, from what `plan --json` says with the same flags."""
import json
import sys

plan = json.load(open(sys.argv[1]))
inputs = {key: row["value"] for key, row in plan["inputs"].items()}
layout = plan["best"]["layout"]
expected = {key: layout[key] for key in ("tp", "cp", "pp", "vp", "dp", "ep", "etp", "zero", "shard", "cp_kind",
                                         "schedule", "micro_batch", "micro_batches")}
recompute = str(layout["recompute"])
expected |= {"gpus": int(inputs["gpus"]), "seq": int(inputs["seq"]), "global_batch": int(inputs["global_batch"]),
             "precision": inputs["precision"], "sp": layout["sequence_parallel"], "model": inputs["model"],
             "recompute": recompute.split("-")[0] if recompute.startswith(("none", "full")) else "selective"}
if expected["shard"] == layout["dp"] * layout["cp"]:  # all of it: reports name the number, files need none
    expected["shard"] = 0
expected["depth"] = int(sys.argv[2])
json.dump(expected, open(sys.argv[3], "w"))
