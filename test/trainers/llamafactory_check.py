"""LLaMA-Factory: its arguments, loader, converter and preprocessing, by the export's dataset_info.json."""

import os

import common


def rows_of(path):
    if path.endswith(".parquet"):
        import pyarrow.parquet as pq

        return pq.read_metadata(path).num_rows
    with open(path, "rb") as f:
        return sum(1 for _ in f)


def in_loading_order(job):
    """It takes the files of a folder in the order of the directory."""
    at, parts = 0, {}
    for path in job["files"]:
        n = rows_of(path)
        parts[os.path.basename(path)] = job["rows"][at:at + n]
        at += n
    assert at == len(job["rows"])
    return [row for name in os.listdir(job["folder"] + "/train") for row in parts[name]]


def check(job):
    folder = job["work"] + "/model"
    common.model(folder, common.tokenizer(folder))
    from llamafactory.data import get_dataset, get_template_and_fix_tokenizer
    from llamafactory.hparams import get_train_args
    from llamafactory.model import load_tokenizer

    model_args, data_args, training_args, _, _ = get_train_args({
        "model_name_or_path": folder, "stage": "sft", "do_train": True, "finetuning_type": "full", "template": "qwen3",
        "dataset": "maths", "dataset_dir": job["folder"], "cutoff_len": 1 << 14, "mask_history": job["mask_history"],
        "output_dir": job["work"] + "/out", "cache_dir": job["work"] + "/cache", "overwrite_cache": True, "report_to": "none", "use_cpu": True,
    })
    module = load_tokenizer(model_args)
    tok = module["tokenizer"]
    template = get_template_and_fix_tokenizer(tok, data_args)
    data = get_dataset(template, model_args, data_args, training_args, "sft", **module)["train_dataset"]
    made = [common.seen(tok, row["input_ids"], row["labels"]) for row in data]
    checker = common.Checker(reasoning=job["reasoning"] != "drop")
    checker.rows(in_loading_order(job), made)
    return len(made), checker.problems


if __name__ == "__main__":
    common.main(check)
