package render

import (
	"embed"
	"strings"
)

// keyFiles list every key that a release of a trainer knows, one a line, a
// file for each of its methods. They are read out of the installed releases;
// test/trainers compares them.
//
//go:embed keys/*.txt
var keyFiles embed.FS

// keysOf is what keys/NAME.txt lists. The file is part of the program.
func keysOf(name string) []string {
	text, err := keyFiles.ReadFile("keys/" + name + ".txt")
	if err != nil {
		panic("render: " + err.Error())
	}
	return strings.Fields(string(text))
}

// with are the entries of several maps; the last one that has a key decides.
func with[V any](maps ...map[string]V) map[string]V {
	out := map[string]V{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}
