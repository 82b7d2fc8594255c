"""ms-swift: its loader, its preprocessor and the encoding of a template with an agent's calls."""

import common


def check(job):
    folder = job["work"] + "/model"
    tok = common.tokenizer(folder)
    common.model(folder, tok)
    from swift.dataset import load_dataset
    from swift.model import get_processor
    from swift.template import get_template

    processor = get_processor(folder, model_type="qwen3")
    template = get_template(processor, template_type="qwen3", max_length=1 << 14, agent_template="hermes")
    template.set_mode("train")
    data, _ = load_dataset(job["files"], num_proc=1, shuffle=False, strict=True, load_from_cache_file=False)
    made = []
    for row in data:
        out = template.encode(row)
        made.append(common.seen(tok, out["input_ids"], out["labels"]))
    checker = common.Checker(reasoning=job["reasoning"] != "drop")
    checker.rows(job["rows"], made)
    return len(made), checker.problems


if __name__ == "__main__":
    common.main(check)
