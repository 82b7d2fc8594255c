"""Configurations that were rendered, read by the parsers and the loaders of their trainers."""

import dataclasses
import os
import subprocess
import sys

import yaml

import common


def fields(*classes):
    return {f.name for c in classes for f in dataclasses.fields(c) if f.init}


def differ(config, parsed, names):
    """What is not as it was written once it was parsed."""
    out = []
    for name in names:
        want, got = config[name], getattr(parsed, name)
        if hasattr(got, "value"):
            got = got.value
        if isinstance(got, list) and not isinstance(want, list):
            want = [] if want == "none" else str(want).split(",")
        if isinstance(want, (int, float)) and not isinstance(want, bool) and isinstance(got, (int, float)):
            same = float(want) == float(got)
        else:
            same = want == got or str(want) == str(got)
        if not same:
            out.append(f"{name} is {got!r}, and {want!r} was written")
    return out


def trl(job, config):
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    import trl
    from trl import DatasetMixtureConfig, ModelConfig, ScriptArguments, TrlParser, get_dataset
    from trl.experimental.gkd import GKDConfig
    from trl.experimental.gold import GOLDConfig

    of = {"sft": trl.SFTConfig, "dpo": trl.DPOConfig, "reward": trl.RewardConfig, "gkd": GKDConfig, "gold": GOLDConfig}[job["method"]]
    classes = (ScriptArguments, of, ModelConfig, DatasetMixtureConfig)
    _, args, model, mixture = TrlParser(classes).parse_args_and_config(["--config", job["config"]])
    ours = ("seed", "max_length", "packing", "assistant_only_loss", "completion_only_loss", "bf16", "learning_rate", "beta", "lmbda", "report_to")
    problems = differ(config, args, [k for k in ours if k in config])
    return fields(*classes), len(get_dataset(mixture)["train"]), problems


def llamafactory(job, config):
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import get_train_args, parser
    from llamafactory.model import load_tokenizer

    argv, sys.argv = sys.argv, ["llamafactory-cli", job["config"]]  # as `llamafactory-cli train` leaves them
    model_args, data_args, training_args, finetuning_args, _ = get_train_args()
    sys.argv = argv
    problems = differ(config, data_args, ["cutoff_len", "neat_packing", "mask_history", "train_on_prompt", "enable_thinking", "template"])
    problems += differ(config, training_args, ["seed", "data_seed", "bf16", "learning_rate", "report_to"])
    problems += differ(config, finetuning_args, ["stage", "finetuning_type"])
    module = load_tokenizer(model_args)
    template = get_template_and_fix_tokenizer(module["tokenizer"], data_args)
    data = get_dataset(template, model_args, data_args, training_args, "sft", **module)["train_dataset"]
    return fields(*parser._TRAIN_ARGS), len(data), problems


def axolotl(job, config):
    from axolotl.cli.config import load_cfg
    from axolotl.common.datasets import load_datasets
    from axolotl.utils.schemas.config import AxolotlInputConfig

    cfg = load_cfg(job["config"])
    problems = differ(config, cfg, ["seed", "sequence_len", "excess_length_strategy", "train_on_inputs", "bf16", "learning_rate", "optimizer", "chat_template"])
    if cfg.sample_packing:
        problems.append("rows are packed")
    return set(AxolotlInputConfig.model_fields), len(load_datasets(cfg=cfg).train_dataset), problems


def msswift(job, config):
    from swift.arguments import RLHFArguments, SftArguments
    from swift.cli.main import parse_yaml_args
    from swift.utils import parse_args

    of = RLHFArguments if job["method"] == "gkd" else SftArguments
    argv = [job["config"]]
    parse_yaml_args(argv)  # as `swift sft` makes arguments of a file
    args, left = parse_args(of, argv)
    problems = [f"{left} are left"] if left else []
    ours = ["seed", "data_seed", "max_length", "truncation_strategy", "packing", "tuner_type", "use_hf", "learning_rate", "strict", "bf16"]
    if job["method"] == "gkd":
        ours += ["rlhf_type", "lmbda", "beta", "temperature", "teacher_model", "max_completion_length"]
    problems += differ(config, args, ours)
    if os.path.realpath(args.output_dir) != os.path.realpath("output"):
        problems.append(f"the output is {args.output_dir}")
    data, _ = args.load_dataset()
    return fields(of), len(data), problems


def check(job):
    os.chdir(job["bundle"])
    tok = common.tokenizer("student")
    common.model("student", tok)
    with open(job["config"]) as f:
        config = yaml.safe_load(f)
    known, rows, problems = {"trl": trl, "llamafactory": llamafactory, "axolotl": axolotl, "ms-swift": msswift}[job["trainer"]](job, config)
    with open(job["keys"]) as f:
        listed = set(f.read().split())
    if known != listed:
        problems.append(f"the release knows {sorted(known - listed)} beside those listed, and not {sorted(listed - known)}")
    if job["command"]:
        path = os.path.dirname(sys.executable)
        env = dict(os.environ, PATH=path + os.pathsep + os.environ["PATH"], STILLHOUSE_ROWS_FILE="rows")
        command = [sys.executable if word == "python3" else word for word in job["command"]]
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            problems.append(f"{command} ended with {done.returncode}: {done.stdout[-3000:]}")
        elif not os.path.exists("output/model.safetensors"):
            problems.append(f"{command} left {sorted(os.listdir('output'))}")
        if os.path.exists("rows"):
            with open("rows") as f:
                if int(f.read()) != rows:
                    problems.append("the trainer counted other rows than its loader")
    return rows, problems


if __name__ == "__main__":
    common.main(check)
