// Package trainers gives what export writes to the trainers that read it: TRL,
// LLaMA-Factory, Axolotl, verl and ms-swift, from their own packages, each with
// its own loading and preprocessing, over rows with reasoning, tools,
// histories, trajectories, nulls and other scripts.
//
// It holds of each view: the trainer keeps every row; what the loss sees,
// decoded, is the text of the turns that are trained and of no other; reasoning
// is there exactly once; the arguments of a call are there once, as the object
// that the teacher wrote, without keys that it did not write.
//
// And of each configuration that training/render writes for them: the trainer's
// own parser takes it with the values that are written, the renderer knows
// exactly the keys of the release, the trainer's loader finds all rows by it
// alone, and TRL trains two steps by it, with each of its methods.
//
//	make trainers                   every trainer, each in an environment of its own: about 25 GB and 10 minutes
//	.ci/trainers trl                one of them
//
// A trainer whose environment is absent is skipped, and fails the test where
// STILLHOUSE_REQUIRE_TRAINERS names it. The test installs nothing and asks no
// network: the tokenizer and the model are made in it.
package trainers
