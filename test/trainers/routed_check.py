"""Gives a golden file of training/render to its trainer's own parser: routed_check.py TRAINER GOLDEN

What it holds: the trainer takes the configuration that was rendered, and makes
its own objects of it, the teachers and their names among them.
"""

import importlib.util
import os
import pathlib
import sys
import tempfile


def unpack(golden, folder):
    """Writes the files of a golden file, each after a line --- NAME, and gives their names."""
    names = []
    for part in pathlib.Path(golden).read_text().split("\n--- ")[1:]:
        name, text = part.split("\n", 1)
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        names.append(name)
    return names


def verl(config):
    import hydra
    from verl.utils.config import omega_conf_to_dataclass

    base = {"sft": "sft_trainer_engine", "opd": "ppo_trainer"}[pathlib.Path(config).stem]
    sys.argv = ["verl", "--config-dir", os.path.dirname(config), "--config-name", pathlib.Path(config).stem]

    @hydra.main(config_path="pkg://verl.trainer.config", config_name=base, version_base=None)
    def main(c):
        if base == "sft_trainer_engine":
            for section in ("engine", "optim", "checkpoint"):
                omega_conf_to_dataclass(c[section])
            assert c.data.enable_thinking_default is None and c.trainer.seed == 7, c
            return
        d = omega_conf_to_dataclass(c.distillation)
        teachers = {key: t.model_path for key, t in d.teacher_models.items()}
        assert teachers == {"k3": "moonshotai/Kimi-K3", "coder-1.5": "org/coder"}, teachers
        assert d.teacher_key == "data_source" and d.n_gpus_per_node * d.nnodes == 2, d
        for t in d.teacher_models.values():
            assert (t.inference.prompt_length, t.inference.max_model_len) == (32768, 32769), t
        omega_conf_to_dataclass(c.actor_rollout_ref.rollout)
        omega_conf_to_dataclass(c.actor_rollout_ref.actor)

    main()


def trl(config):
    spec = importlib.util.spec_from_file_location("opd", config.replace(".yaml", ".py"))
    opd = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(opd)
    parser = opd.TrlParser((opd.ScriptArguments, opd.AsyncDistillationConfig, opd.StudentConfig, opd.DatasetMixtureConfig))
    _, args, student, mixture = parser.parse_args_and_config(["--config", config, "--use_cpu", "true", "--bf16", "false"])
    assert args.teacher_server_urls == {"k3": "http://k3:8000", "coder-1.5": "https://coder:8001"}, args.teacher_server_urls
    assert student.model_name_or_path == "moonshotai/Moonlight-16B-A3B" and args.token_budget == 32768, (student, args)
    assert mixture.datasets[0].columns == ["prompt", "teacher_id"], mixture


def main():
    trainer, golden = sys.argv[1], os.path.abspath(sys.argv[2])
    os.chdir(tempfile.mkdtemp())
    config = next(name for name in unpack(golden, ".") if name.endswith(".yaml"))
    {"verl": verl, "trl": trl}[trainer](config)
    print("taken")


if __name__ == "__main__":
    main()
