package recipe

import (
	"strings"
	"testing"
	"time"
)

func batchTeacher(more string) string {
	return "name: b\nprompts: [{path: p.jsonl}]\nteachers:\n  - {id: t, model: m, " + more + "}\n"
}

func TestBatchTeachers(t *testing.T) {
	r, err := Parse("r.yaml", []byte(batchTeacher("api: openai-batch, base_url: https://x/v1, price: {input: 1, output: 2}")))
	if err != nil {
		t.Fatal(err)
	}
	got := r.Teachers[0]
	if want := (Batch{Window: 24 * time.Hour, Poll: 30 * time.Second, Settle: 2 * time.Minute}); got.Batch != want || !got.IsBatch() {
		t.Errorf("%+v", got.Batch)
	}
	for text, want := range map[string]float64{
		"api: openai-batch, base_url: https://x/v1, price: {input: 1}":                         0.5,
		"api: anthropic-batch, base_url: https://x/v1, price: {input: 1}":                      0.5,
		"api: openai-batch, base_url: https://x/v1, price: {input: 1, batch_discount: 0}":      0,
		"api: openai-batch, base_url: https://x/v1, price: {input: 1, batch_discount: 0.4}":    0.4,
		"api: openai, base_url: https://x/v1, price: {input: 1}":                               0,
		"api: openai-batch, identity: own, batch: {folder: vllm}, price: {input: 1}":           0,
		"api: openai-batch, identity: own, batch: {folder: a.b-c_D}, price: {input: 0.1}":      0,
		"api: openai-batch, base_url: https://x/v1, batch: {window: 7d}, price: {output: 0.1}": 0.5,
	} {
		r, err := Parse("r.yaml", []byte(batchTeacher(text)))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if d := r.Teachers[0].Price.BatchDiscount; d != want {
			t.Errorf("%s: discount %v, want %v", text, d, want)
		}
	}
}

func TestBadBatches(t *testing.T) {
	for text, want := range map[string]string{
		"base_url: https://x/v1, batch: {poll: 1s}":                                  "teachers[0].batch: is for batch APIs",
		"api: openai-batch, base_url: https://x/v1, batch: {window: 90m}":            "teachers[0].batch.window: 1h30m0s: want whole hours",
		"api: openai-batch, base_url: https://x/v1, batch: {window: 30d}":            "teachers[0].batch.window: 720h0m0s: want whole hours",
		"api: openai-batch, base_url: https://x/v1, batch: {poll: 1ms}":              "teachers[0].batch.poll: 1ms: want 10ms to 1h0m0s",
		"api: openai-batch, base_url: https://x/v1, batch: {settle: 2h}":             "teachers[0].batch.settle: 2h0m0s: want 1s to 1h0m0s",
		"api: openai-batch, base_url: https://x/v1, batch: {rows: 0}":                "teachers[0].batch.rows: 0 is less than 1",
		"api: openai-batch, base_url: https://x/v1, identity: x, batch: {folder: f}": "teachers[0].base_url: has no use beside batch.folder",
		"api: openai-batch, identity: x, batch: {folder: f}, api_key_env: K":         "teachers[0].api_key_env: has no use beside batch.folder",
		"api: openai-batch, batch: {folder: f}":                                      "teachers[0].identity: is missing",
		"api: anthropic-batch, identity: x, batch: {folder: f}":                      "teachers[0].batch.folder: holds files in OpenAI's form",
		"api: openai-batch, identity: x, batch: {folder: ../f}":                      "teachers[0].batch.folder: \"../f\" is no folder's name",
		"api: openai-batch, identity: x, batch: {folder: f.}":                        "teachers[0].batch.folder: \"f.\" is no folder's name",
		"api: openai-batch, identity: x, batch: {folder: ''}":                        "teachers[0].batch.folder: is empty",
		"api: openai-batch, base_url: https://x/v1, batch: {bytes: 0B}":              "teachers[0].batch.bytes",
		"api: openai-batch": "teachers[0].base_url: is missing",
		"api: openai-batch, base_url: https://x/v1, price: {input: 1, batch_discount: 2}":            "teachers[0].price.batch_discount: 2 is more than 1",
		"api: openai-batch, base_url: 'http://example.com/v1', api_key_env: K, batch: {window: 24h}": "would send the key",
		"api: openai-batch, base_url: https://x/v1, batch: {folders: f}":                             `unknown key "folders"; did you mean "folder"?`,
	} {
		_, err := Parse("r.yaml", []byte(batchTeacher(text)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}
