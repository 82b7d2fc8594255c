"""GOLD as trl 1.16.0 has it: python3 configs/trl/gold.py --config configs/trl/gold.yaml

Under accelerate launch it trains on several GPUs.
"""

import os

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from transformers import AutoTokenizer
from trl import DatasetMixtureConfig, ModelConfig, ScriptArguments, TrlParser, get_dataset, get_peft_config, get_quantization_config
from trl.experimental.gold import GOLDConfig, GOLDTrainer


def main():
    parser = TrlParser((ScriptArguments, GOLDConfig, ModelConfig, DatasetMixtureConfig))
    _, args, model, mixture = parser.parse_args_and_config()
    args.model_init_kwargs = {
        "revision": model.model_revision,
        "attn_implementation": model.attn_implementation,
        "dtype": model.dtype,
        "quantization_config": get_quantization_config(model),
    }
    tokenizer = AutoTokenizer.from_pretrained(
        model.model_name_or_path, revision=model.model_revision, trust_remote_code=args.trust_remote_code
    )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    trainer = GOLDTrainer(
        model=model.model_name_or_path,
        teacher_model=args.teacher_model_name_or_path,
        args=args,
        train_dataset=get_dataset(mixture)["train"],
        processing_class=tokenizer,
        peft_config=get_peft_config(model),
    )
    trainer.train()
    trainer.save_model(args.output_dir)
    if trainer.is_world_process_zero() and os.environ.get("STILLHOUSE_ROWS_FILE"):
        with open(os.environ["STILLHOUSE_ROWS_FILE"], "w") as f:
            print(len(trainer.train_dataset), file=f)


if __name__ == "__main__":
    main()
