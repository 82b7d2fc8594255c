// Package launchers runs launches on clusters as they are: Ray from PyPI, a Slurm
// of one node from Debian's packages, each started by the test on loopback and
// ended by it. What starts is the real bundle, by presigned URLs of a store in
// the test, with trainers that are a line of shell.
//
// It holds of each: a launch that is submitted again, at once from many sides
// and after lost answers starts once; its end is told as it was, with the result
// and the log that it left; a cancelled one ends as cancelled; a cluster that
// forgot a launch leaves it unknown, and a second start of it does not train.
//
//	make launchers       both; see .ci/launchers for one of them
//
// A cluster that is not installed is skipped, and fails the test where
// STILLHOUSE_REQUIRE_LAUNCHERS names it.
package launchers
