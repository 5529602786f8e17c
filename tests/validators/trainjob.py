"""Kubeflow Trainer's own schema on emitted TrainJobs: the models that kubeflow-trainer-api generates from the CRD's OpenAPI,
with unknown fields refused as `kubectl apply --validate=strict` does, the webhook's rule on PET_ variables, and torchrun's
parser on the command."""
import glob
import os

import yaml
from common import run
from kubeflow_trainer_api.models.trainer_v1alpha1_train_job import TrainerV1alpha1TrainJob


def strict(model, value, path="TrainJob"):
    """Every key of `value` has a field in the model, all the way down."""
    fields = {field.alias or name: name for name, field in type(model).model_fields.items()}
    for key, inner in value.items():
        assert key in fields, f"{path}: no field `{key}`"
        parsed = getattr(model, fields[key])
        pairs = [(parsed, inner)] if isinstance(inner, dict) else list(zip(parsed or [], inner)) if isinstance(inner, list) else []
        for one, raw in pairs:
            if isinstance(raw, dict) and hasattr(type(one), "model_fields"):
                strict(one, raw, f"{path}.{key}")


def read(path):
    with open(path) as file:
        raw = yaml.safe_load(file)
    job = TrainerV1alpha1TrainJob.from_dict(raw)
    strict(job, raw)
    return job


def refuses(raw):
    try:
        strict(TrainerV1alpha1TrainJob.from_dict(raw), raw)
    except Exception:
        return True
    return False


def check(folder, expected):
    path, = glob.glob(os.path.join(folder, "*.yaml"))
    job = read(path)
    assert job.api_version == "trainer.kubeflow.org/v1alpha1" and job.kind == "TrainJob"
    trainer = job.spec.trainer
    names = {variable.name for variable in trainer.env or []}
    assert not any(name.startswith("PET_") for name in names), "the controller sets PET_ variables"
    words = [*trainer.command, *trainer.args]
    assert words[0] == "torchrun" and not {"--nnodes", "--node-rank", "--master-addr"} & set(words)
    flags = {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--")}
    number = lambda flag, default=1: int(flags.get(flag, default))
    with open(path) as file:
        raw = yaml.safe_load(file)
    broken = {**raw, "spec": {**raw["spec"], "trainer": {**raw["spec"]["trainer"], "numNode": 1}}}
    assert refuses(broken), "a misspelt field goes through"
    broken = {**raw, "spec": {**raw["spec"], "trainer": {**raw["spec"]["trainer"], "numProcPerNode": "all"}}}
    assert refuses(broken), "processes that are no number go through"
    return {"gpus": trainer.num_nodes * trainer.num_proc_per_node, "tp": number("--tensor-model-parallel-size"),
            "pp": number("--pipeline-model-parallel-size"), "cp": number("--context-parallel-size"),
            "micro_batch": number("--micro-batch-size"), "global_batch": number("--global-batch-size"),
            "seq": number("--seq-length")}


if __name__ == "__main__":
    run("Kubeflow's TrainJob", check)
