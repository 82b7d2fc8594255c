"""verl: MultiTurnSFTDataset over the Parquet files."""

import common


def check(job):
    tok = common.tokenizer(job["work"] + "/model")
    from omegaconf import OmegaConf
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    config = OmegaConf.create({"messages_key": "messages", "max_length": 1 << 14, "truncation": "error", "pad_mode": "no_padding"})
    data = MultiTurnSFTDataset(parquet_files=list(job["files"]), tokenizer=tok, config=config)
    made = []
    for i in range(len(data)):
        row = data[i]
        ids, mask = row["input_ids"].tolist(), row["loss_mask"].tolist()
        made.append(common.seen(tok, ids, [t if m else -100 for t, m in zip(ids, mask)]))
    checker = common.Checker(reasoning=job["reasoning"] != "drop")
    checker.rows(job["rows"], made)
    return len(made), checker.problems


if __name__ == "__main__":
    common.main(check)
