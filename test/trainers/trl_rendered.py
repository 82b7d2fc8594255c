"""What the loss of `trl sft` sees by a rendered configuration, in the bundle's
folder: prints a JSON list of what is wrong with it."""

import json
import os
import sys

import common

out = os.dup(1)
os.dup2(2, 1)
job = json.load(open(sys.argv[1]))

from transformers import AutoTokenizer
from trl import DatasetMixtureConfig, ModelConfig, ScriptArguments, SFTConfig, SFTTrainer, TrlParser, get_dataset

parser = TrlParser((ScriptArguments, SFTConfig, ModelConfig, DatasetMixtureConfig))
script, config, model, mixture = parser.parse_args_and_config(["--config", job["config"]])
data = get_dataset(mixture)[script.dataset_train_split]
tok = AutoTokenizer.from_pretrained(model.model_name_or_path)
trainer = SFTTrainer(model=model.model_name_or_path, args=config, train_dataset=data, processing_class=tok)
made = []
for i in range(len(trainer.train_dataset)):
    batch = trainer.data_collator([trainer.train_dataset[i]])
    made.append(common.seen(tok, batch["input_ids"][0].tolist(), batch["labels"][0].tolist()))
# The trainer may read the rows in another order.
check = common.Checker(loss="all")
if len(made) != len(job["rows"]):
    check.problems.append(f"the trainer kept {len(made)} rows of {len(job['rows'])}")
shuffled = config.shuffle_dataset
for row in job["rows"]:
    texts = [m["content"] for m in row["messages"] if m.get("content")]
    mine = [m for m in made if all(t in m[0] for t in texts)] if shuffled else [made[job["rows"].index(row)]]
    if not mine:
        check.problems.append(f"row {row['sample_id']}: no row of the trainer has its texts")
        continue
    tries = []
    for text, runs in mine:
        one = common.Checker(loss="all")
        one.row(row, text, runs)
        tries.append(one.problems)
    check.problems += min(tries, key=len)
with os.fdopen(out, "w") as f:
    json.dump(check.problems, f)
os._exit(0)
