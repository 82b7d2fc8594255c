"""Decompresses an exported folder with DistillKit's own code.

  distillkit.py CHECKOUT FOLDER

CHECKOUT is a clone of github.com/arcee-ai/DistillKit; needed are torch,
pydantic, pyyaml and pyarrow. Prints a JSON list: for each row a list of
positions, each a list of [id, logprob].
"""

import glob
import json
import os
import sys

import pyarrow.parquet
import torch
import yaml

sys.path.insert(0, sys.argv[1])
# This file has the package's name.
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]
from distillkit.compression import DistributionQuantizationConfig, LogprobCompressor  # noqa: E402

folder = sys.argv[2]
with open(os.path.join(folder, "compression_config.yaml")) as f:
    config = DistributionQuantizationConfig.model_validate(yaml.safe_load(f))
compressor = LogprobCompressor(config=config)
out = []
for path in sorted(glob.glob(os.path.join(folder, "data", "train-*.parquet"))):
    for row in pyarrow.parquet.read_table(path).to_pylist():
        # As its collator makes tensors of lists.
        batch = {key: torch.tensor([row[key]]) for key in ("input_ids", "labels", "compressed_logprobs", "bytepacked_indices")}
        ids, values = compressor.decompress_to_sparse(batch)
        assert ids.shape == values.shape == (1, len(row["input_ids"]), config.k), (ids.shape, values.shape)
        out.append([[[int(i), float(v)] for i, v in zip(a, b)] for a, b in zip(ids[0], values[0])])
print(json.dumps(out))
