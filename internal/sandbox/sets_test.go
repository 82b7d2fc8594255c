//go:build !integration

package sandbox

// stride thins out the problems on which whole sets of answers are tried; with
// the tag integration all are.
const stride = 9
