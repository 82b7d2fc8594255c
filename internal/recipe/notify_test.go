package recipe

import (
	"strings"
	"testing"
)

func TestNotify(t *testing.T) {
	const base = "name: x\nprompts: [{path: p.jsonl}]\nteachers: [{id: t, model: m, base_url: 'https://a.example'}]\nnotify:\n"
	for text, want := range map[string]string{
		"  - {webhook: 'https://hooks.example/x', key_env: HOOK_KEY, on: [gate, failure]}": "",
		"  - {webhook: 'http://127.0.0.1:1/x'}":                                            "",
		"  - {command: [/bin/page, oncall], on: [budget]}":                                 "",
		"  - {on: [gate]}":                                           "either webhook or command",
		"  - {webhook: 'https://a', command: [b]}":                   "either webhook or command",
		"  - {webhook: 'http://hooks.example/x'}":                    "in the clear",
		"  - {webhook: 'https://u:p@hooks.example/x'}":               "holds a password",
		"  - {webhook: 'ftp://hooks.example/x'}":                     "no address",
		"  - {webhook: hooks}":                                       "no address",
		"  - {webhook: 'https://a', on: [sucess]}":                   "success",
		"  - {webhook: 'https://a', key_env: sk-abc}":                "never the key",
		"  - {webhook: 'https://a', key_env: AWS_SECRET_ACCESS_KEY}": "never the key",
		"  - {webhook: 'https://a', key_env: K, key_file: /k}":       "keep one",
		"  - {webhook: 'https://a', key_file: k}":                    "absolute",
		"  - {command: [a], key_env: K}":                             "only signs",
		"  - {command: ['']}":                                        "no program",
		"  - {webhok: 'https://a'}":                                  "webhook",
		strings.Repeat("  - {webhook: 'https://a'}\n", maxNotify+1):  "at most",
	} {
		_, err := Parse("x.yaml", []byte(base+text))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
	n := Notify{On: []string{"gate"}}
	if n.Wants("success") || !n.Wants("gate") || !(&Notify{}).Wants("failure") {
		t.Error("the wrong events are told")
	}
}
