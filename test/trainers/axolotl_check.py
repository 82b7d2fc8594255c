"""Axolotl: its configuration, loader and preprocessing for type chat_template."""

import common


def check(job):
    folder = job["work"] + "/model"
    tok = common.tokenizer(folder)
    common.model(folder, tok)
    import yaml
    from axolotl.cli.config import load_cfg
    from axolotl.common.datasets import load_datasets

    data = {
        "path": job["folder"], "data_files": job["files"], "ds_type": "parquet" if job["extension"] == ".parquet" else "json", "split": "train",
        "type": "chat_template", "field_messages": "messages", "field_tools": "tools", "message_field_training": "train", "roles_to_train": [],
        "train_on_eos": "turn",
    }
    if job["extension"] == ".jsonl":
        # By the card, which declares the columns: the loader of lines would
        # infer them from each file, where some hold nothing but null.
        for key in ("data_files", "ds_type"):
            del data[key]
    config = {
        "base_model": folder, "chat_template": "tokenizer_default", "datasets": [data], "sequence_len": 1 << 14, "sample_packing": False,
        "dataset_prepared_path": job["work"] + "/prepared", "output_dir": job["work"] + "/out", "micro_batch_size": 1, "gradient_accumulation_steps": 1,
        "num_epochs": 1, "learning_rate": 1e-4, "optimizer": "adamw_torch", "bf16": False, "fp16": False, "tf32": False, "special_tokens": {},
        "val_set_size": 0, "dataset_processes": 1, "shuffle_merged_datasets": False, "shuffle_before_merging_datasets": False,
    }
    path = job["work"] + "/config.yaml"
    with open(path, "w") as f:
        yaml.safe_dump(config, f)
    made = load_datasets(cfg=load_cfg(path)).train_dataset
    made = [common.seen(tok, row["input_ids"], row["labels"]) for row in made]
    checker = common.Checker(reasoning=job["reasoning"] != "drop")
    checker.rows(job["rows"], made)
    return len(made), checker.problems


if __name__ == "__main__":
    common.main(check)
