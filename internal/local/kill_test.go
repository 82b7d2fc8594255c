//go:build !noembed

package local

func parentMain(args []string) (bool, int) { return false, 0 }
