#!/usr/bin/env python3
"""Writes tests/presets/family_defaults.jsonl: of every family in family_counts.jsonl the configs that state least, and
what transformers saves of them, which states the defaults of the family's own configuration class. Needs transformers
5.23."""
import json
import os

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

PRESETS = os.path.join(os.path.dirname(__file__), "../presets")


# A prediction module is in checkpoints, and transformers builds none, whatever its class assumes.
NOT_BUILT = {"num_nextn_predict_layers"}


def main():
    families = {}
    for line in open(os.path.join(PRESETS, "family_counts.jsonl")):
        config = json.loads(line)["config"]
        families.setdefault(config["model_type"], []).append(config)
    with open(os.path.join(PRESETS, "family_defaults.jsonl"), "w") as out:
        for _, configs in sorted(families.items()):
            for config in sorted(configs, key=len)[:2]:
                saved = json.loads(CONFIG_MAPPING[config["model_type"]](**config).to_json_string(use_diff=False))
                kept = {key: value for key, value in saved.items()
                        if not isinstance(value, (dict, str)) and value is not None and not key.endswith("token_id")
                        and key not in NOT_BUILT}
                out.write(json.dumps({"config": config, "saved": kept | config}) + "\n")


if __name__ == "__main__":
    main()
