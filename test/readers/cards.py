"""Reads exported folders as the hub and the datasets library do, by their cards.

  cards.py CACHE FOLDER...

Prints a JSON object: folder -> {splits, card, logits}. card is what
huggingface_hub's parser makes of the YAML. logits are the distributions of a
folder that has a compression_config.yaml, decompressed as DistillKit's
decompressor does it: its formulas, over numpy.
"""

import json
import math
import os
import sys

import datasets
import huggingface_hub
import numpy as np
import yaml


def decompress(row, cfg):
    """One row to a list of positions, each a list of [id, logprob]."""
    assert not cfg["delta_encoding"] and not cfg["residual_bins"] and not cfg["polynomial_terms"] and cfg["exact_k"] == cfg["k"]
    bits = int(np.ceil(np.log2(np.float32(cfg["d"]))))
    exact = np.array(row["compressed_logprobs"], dtype=np.uint8)
    values = exact[..., : 4 * cfg["exact_k"]].copy().view(np.float32)
    packed = np.array(row["bytepacked_indices"], dtype=np.uint8)
    stream = np.unpackbits(packed, axis=-1)[..., : cfg["k"] * bits]
    powers = 2 ** np.arange(bits - 1, -1, -1)
    ids = (stream.reshape(len(packed), cfg["k"], bits) * powers).sum(axis=-1)
    return [[[int(i), float(v)] for i, v in zip(a, b)] for a, b in zip(ids, values)]


def look(folder, cache):
    card = huggingface_hub.DatasetCard.load(os.path.join(folder, "README.md"))
    data = card.data.to_dict()
    assert yaml.safe_load(card.content.split("\n---\n")[0].removeprefix("---\n")) == json.loads(json.dumps(data)), "the card's parser and YAML differ"
    ds = datasets.load_dataset(folder, cache_dir=cache)  # holds the counts of the card
    out = {"splits": {name: split.num_rows for name, split in ds.items()}, "card": data, "rows": next(iter(ds.values())).to_list()}
    config = os.path.join(folder, "compression_config.yaml")
    if os.path.exists(config):
        with open(config) as f:
            cfg = yaml.safe_load(f)
        out["logits"] = [decompress(row, cfg) for row in ds["train"]]
        assert cfg["d"] <= 2 ** math.ceil(math.log2(cfg["d"]))
    return out


if __name__ == "__main__":
    datasets.disable_progress_bars()
    print(json.dumps({folder: look(folder, sys.argv[1]) for folder in sys.argv[2:]}))
