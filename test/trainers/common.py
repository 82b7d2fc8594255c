"""What the checks of all trainers share: a tokenizer, a model, and what a
training has to see of a row.

A check is given a JSON list on stdin, an object for each export: its folder,
its files, the rows that it was made from, and a folder to work in. It prints
as many objects: {"rows": n, "problems": [...]}. Loading a trainer takes longer
than all that it does here.
"""

import json
import os
import re
import sys
import traceback

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("DISABLE_VERSION_CHECK", "1")  # of LLaMA-Factory, which pins what the others need newer
for name in ("AXOLOTL_DO_NOT_TRACK", "DO_NOT_TRACK", "HF_HUB_DISABLE_TELEMETRY", "WANDB_DISABLED"):
    os.environ.setdefault(name, "1")

IM_START, IM_END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"

# ChatML as Qwen's models have it, with reasoning, tools, and marks of what the
# assistant generates. The arguments of a call are text or an object.
TEMPLATE = """
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages and messages[0].role == 'system' %}{{- messages[0].content + '\\n\\n' }}{%- endif %}
{{- '<tools>' }}
{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
{{- '\\n</tools><|im_end|>\\n' }}
{%- elif messages and messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'system' and loop.first %}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- generation %}
{%- set reasoning = message.reasoning_content or message.thinking %}
{%- if reasoning %}{{- '<think>\\n' + reasoning + '\\n</think>\\n\\n' }}{%- endif %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}
{%- set f = call.function or call %}
{{- '\\n<tool_call>\\n{"name": "' + f.name + '", "arguments": ' }}
{{- f.arguments if f.arguments is string else (f.arguments | tojson) }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>' }}
{%- endgeneration %}
{{- '\\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""


def tokenizer(folder):
    """A tokenizer whose tokens are bytes, so that decoding gives back every text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    tok = PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token=IM_END, pad_token=PAD, additional_special_tokens=[IM_START], clean_up_tokenization_spaces=False
    )
    tok.chat_template = TEMPLATE
    tok.model_max_length = 1 << 20
    tok.save_pretrained(folder)
    return tok


def model(folder, tok):
    """A model of random weights, some thousand of them."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tok), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=1 << 14, eos_token_id=tok.eos_token_id, pad_token_id=tok.pad_token_id, bos_token_id=None,
    )
    m = LlamaForCausalLM(config)
    m.save_pretrained(folder)
    return m


def seen(tok, ids, labels):
    """The texts of a row, and of what the loss sees of it: a run of tokens each."""
    runs, run = [], []
    for i, label in zip(ids, labels):
        if label == -100:
            if run:
                runs.append(run)
            run = []
        else:
            run.append(int(i))
    if run:
        runs.append(run)
    text = tok.decode([int(i) for i in ids], skip_special_tokens=False)
    return text, [tok.decode(r, skip_special_tokens=False) for r in runs]


CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.S)


class Checker:
    """Holds what a trainer makes of each row to what the teacher wrote.

    loss: which turns of the assistant this trainer trains: "marked", the ones
    that the row says, or "all".
    """

    def __init__(self, loss="marked", reasoning=True, calls=True):
        self.loss, self.reasoning, self.calls = loss, reasoning, calls
        self.problems = []

    def row(self, row, text, runs):
        name, trained = row["sample_id"], "".join(runs)
        learnt_texts = [
            t for m in row["messages"] if m["role"] == "assistant" and (m["train"] or self.loss == "all")
            for t in (m.get("content"), m.get("reasoning_content"), json.dumps(m.get("tool_calls"), ensure_ascii=False)) if t
        ]
        for i, m in enumerate(row["messages"]):
            assistant = m["role"] == "assistant"
            turn = f"row {name}, turn {i + 1} ({m['role']})"
            content, reasoning = m.get("content") or "", m.get("reasoning_content") or ""
            learn = assistant and (m["train"] or self.loss == "all")
            if content and content not in text:
                self.problems.append(f"{turn}: its text is not in the row")
            if learn and content and content not in trained:
                self.problems.append(f"{turn}: the loss does not see its text; it sees {runs!r}")
            if not learn and content and content in trained and not any(content in t for t in learnt_texts):
                self.problems.append(f"{turn}: the loss sees its text; it sees {runs!r}")
            if reasoning:
                times, learnt = text.count(reasoning), trained.count(reasoning)
                want = 1 if self.reasoning else 0
                if times != want or learnt != (want if learn else 0):
                    self.problems.append(f"{turn}: its reasoning is there {times} times, and {learnt} times in what the loss sees, not {want}; the row is {text!r}")
        if self.calls:
            self.tool_calls(row, trained)

    def tool_calls(self, row, trained):
        want = [
            (c["name"], json.loads(c["arguments"]))
            for m in row["messages"] if m["train"] for c in m.get("tool_calls") or [] if is_object(c["arguments"])
        ]
        got = []
        for text in CALL.findall(trained):
            try:
                call = json.loads(text)
                got.append((call["name"], call["arguments"]))
            except (ValueError, TypeError, KeyError):
                if all(is_object(c["arguments"]) for m in row["messages"] for c in m.get("tool_calls") or []):
                    self.problems.append(f"row {row['sample_id']}: a call is no JSON: {text!r}")
        if got != want:
            self.problems.append(f"row {row['sample_id']}: the calls are {got!r}, and the teacher made {want!r}")

    def rows(self, rows, made):
        """made has a (text, runs) for each row that the trainer kept."""
        made = list(made)
        if len(made) != len(rows):
            self.problems.append(f"the trainer kept {len(made)} rows of {len(rows)}")
            return
        for row, (text, runs) in zip(rows, made):
            self.row(row, text, runs)


def is_object(text):
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def main(check):
    """Runs check(job) for each job and prints what it found. A trainer's own talk goes to stderr."""
    jobs = json.load(sys.stdin)
    out = os.dup(1)
    os.dup2(2, 1)
    found = []
    for job in jobs:
        try:
            rows, problems = check(job)
        except Exception:
            rows, problems = 0, [traceback.format_exc()[-3000:]]
        found.append({"rows": rows, "problems": problems})
    with os.fdopen(out, "w") as f:
        json.dump(found, f)
    os._exit(0)  # some leave threads behind
