"""TRL: load_dataset, then SFTTrainer or DPOTrainer, as `trl sft` makes them, and one step."""

import common


def sft(job, tok, model):
    from datasets import load_dataset
    from trl import SFTConfig, SFTTrainer

    if job["extension"] == ".jsonl":  # by the card, which declares what is JSON: the loader of lines would guess
        data = load_dataset(job["folder"], split="train", cache_dir=job["work"] + "/cache")
    else:
        kind = job["extension"][1:]
        data = load_dataset(kind, data_files=job["files"], split="train", cache_dir=job["work"] + "/cache")
    completion = job["view"] == "prompt_completion"
    config = SFTConfig(
        output_dir=job["work"] + "/out", max_length=None, packing=False, bf16=False, use_cpu=True, report_to="none", max_steps=1,
        per_device_train_batch_size=2, gradient_checkpointing=False, save_strategy="no", logging_steps=1, disable_tqdm=True,
        assistant_only_loss=not completion, completion_only_loss=completion, dataset_num_proc=None, shuffle_dataset=False,
    )
    trainer = SFTTrainer(model=model, args=config, train_dataset=data, processing_class=tok)
    check = common.Checker(loss="marked" if completion else "all", reasoning=job["reasoning"] != "drop")
    made = []
    for i in range(len(trainer.train_dataset)):
        batch = trainer.data_collator([trainer.train_dataset[i]])
        made.append(common.seen(tok, batch["input_ids"][0].tolist(), batch["labels"][0].tolist()))
    check.rows(job["rows"], made)
    loss = trainer.train().training_loss
    if not 0 < loss < 100:
        check.problems.append(f"a step has a loss of {loss}")
    return len(made), check.problems


def dpo(job, tok, _):
    from datasets import load_dataset
    from trl import DPOConfig, DPOTrainer

    data = load_dataset("parquet", data_files=job["files"], split="train", cache_dir=job["work"] + "/cache")
    config = DPOConfig(
        output_dir=job["work"] + "/out", max_length=None, bf16=False, use_cpu=True, report_to="none", max_steps=1, disable_tqdm=True,
        per_device_train_batch_size=1, gradient_checkpointing=False, save_strategy="no", logging_steps=1,
    )
    # By its path, since the trainer loads the reference model itself.
    trainer = DPOTrainer(model=job["work"] + "/model", args=config, train_dataset=data, processing_class=tok)
    problems, made = [], list(trainer.train_dataset)
    if len(made) != len(job["pairs"]):
        problems.append(f"the trainer kept {len(made)} pairs of {len(job['pairs'])}")
    for pair, row in zip(job["pairs"], made):
        texts = {k: tok.decode(v) for k, v in row.items() if k.endswith("_ids")}
        joined = "\n".join(texts.values())
        for side in ("chosen", "rejected"):
            for m in pair[side]:
                text = m.get("content") or ""
                reasoning = m.get("reasoning_content") or ""
                if text and text not in joined:
                    problems.append(f"pair {pair['prompt_id']}: the text of {side} is not in {texts!r}")
                if reasoning and joined.count(f"<think>\n{reasoning}\n</think>") != 1:
                    problems.append(f"pair {pair['prompt_id']}: the reasoning of {side} is not there once: {texts!r}")
    loss = trainer.train().training_loss
    if not 0 < loss < 100:
        problems.append(f"a step has a loss of {loss}")
    return len(made), problems


def check(job):
    tok = common.tokenizer(job["work"] + "/model")
    model = common.model(job["work"] + "/model", tok)
    return (dpo if job["view"] == "preference" else sft)(job, tok, model)


if __name__ == "__main__":
    common.main(check)
