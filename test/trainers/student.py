"""Makes a student of random weights in the folder that is named."""

import sys

import common

common.model(sys.argv[1], common.tokenizer(sys.argv[1]))
