package views_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// An alternative of a token.
type alternative struct {
	id int32
	p  float32
}

func logprobs(n int, prompt []int32, answer []int32, alternatives [][]alternative) datasets.LogprobRow {
	k := 0
	for _, a := range alternatives {
		k = max(k, len(a))
	}
	r := datasets.LogprobRow{
		SampleID: fmt.Sprintf("%032x", n), Split: "train", Teacher: "k1", Selected: true, Complete: true, Tokens: int32(len(answer)), TopK: int32(k),
		PromptTokenIDs: prompt, TokenizerSHA256: ptr(digest),
	}
	for i, id := range answer {
		r.TokenIDs, r.Logprobs, r.TokenBytes, r.TailLogmass = append(r.TokenIDs, &id), append(r.Logprobs, ptr(float32(-1))), append(r.TokenBytes, nil), append(r.TailLogmass, nil)
		for j := range k {
			var one *alternative
			if j < len(alternatives[i]) {
				one = &alternatives[i][j]
			}
			if one == nil {
				r.TopTokenIDs, r.TopLogprobs = append(r.TopTokenIDs, nil), append(r.TopLogprobs, nil)
				continue
			}
			r.TopTokenIDs, r.TopLogprobs = append(r.TopTokenIDs, &one.id), append(r.TopLogprobs, &one.p)
		}
	}
	return r
}

// A quantization is DistillKit's DistributionQuantizationConfig, as far as what
// is plain top-k uses it.
type quantization struct {
	D             int    `yaml:"d"`
	K             int    `yaml:"k"`
	ExactK        int    `yaml:"exact_k"`
	ExactDtype    string `yaml:"exact_dtype"`
	Terms         []any  `yaml:"polynomial_terms"`
	TermDtype     string `yaml:"term_dtype"`
	Bins          []any  `yaml:"residual_bins"`
	DeltaEncoding bool   `yaml:"delta_encoding"`
	Diffusion     bool   `yaml:"error_diffusion"`
	Normalize     bool   `yaml:"normalize_t"`
}

// decompress reads one position as the format says it: the bits of the whole
// byte string as one number, cut from the top; floats by their fields.
func (q *quantization) decompress(t *testing.T, logprobs, indices []uint16) (out []alternative) {
	t.Helper()
	bits := int(math.Ceil(math.Log2(float64(q.D))))
	if len(logprobs) != 4*q.K || len(indices) != (q.K*bits+7)/8 {
		t.Fatalf("%d and %d bytes", len(logprobs), len(indices))
	}
	whole := new(big.Int)
	for _, b := range indices {
		if b > 255 {
			t.Fatalf("%d is no byte", b)
		}
		whole.Or(whole.Lsh(whole, 8), big.NewInt(int64(b)))
	}
	mask := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(bits)), big.NewInt(1))
	for i := range q.K {
		id := new(big.Int).Rsh(whole, uint(8*len(indices)-(i+1)*bits))
		b := logprobs[4*i : 4*i+4]
		word := uint32(b[0]) + uint32(b[1])*256 + uint32(b[2])*65536 + uint32(b[3])*16777216
		value := (1 + float64(word&(1<<23-1))/(1<<23)) * math.Pow(2, float64(word>>23&0xff)-127)
		if word>>31 == 1 {
			value = -value
		}
		if word<<1 == 0 {
			value = 0
		}
		out = append(out, alternative{int32(id.And(id, mask).Int64()), float32(value)})
	}
	return out
}

func logitRow(t *testing.T, rows ...datasets.LogprobRow) (fixture, func(views.Options) (map[string]string, string, error)) {
	f := withTable(t, datasets.TableLogprobs, []catalog.ManifestTeacher{{ID: "k1", Terms: catalog.Terms{Training: catalog.TrainingAllowed}}}, rows)
	return f, func(o views.Options) (map[string]string, string, error) {
		dir := filepath.Join(t.TempDir(), "out")
		o.Version = f.v
		_, err := views.Export(t.Context(), f.c, f.m, views.ViewDistillKit, views.Folder(dir), o)
		if err != nil {
			return nil, "", err
		}
		return tree(t, dir), dir, nil
	}
}

// What is packed is read back by another reading of the format: equal to the
// last bit, each distribution at the token before the one that was drawn.
func TestDistillKit(t *testing.T) {
	first := [][]alternative{{{9, -0.25}, {70_000, -1.5}, {1, -3}}, {{5, -2}, {9, -0.1}, {7, -2.5}}, {{3, 0}, {4, -17.125}, {5, -math.Pi}}}
	second := [][]alternative{{{1, -0.5}, {2, -1}}, {{3, -0.5}}, {{4, -0.5}, {4, -0.5}, {6, -9}}} // one with a gap
	other := logprobs(3, []int32{1}, []int32{1}, [][]alternative{{{1, -1}}})
	other.Selected = false
	held := logprobs(4, []int32{1}, []int32{1}, [][]alternative{{{1, -1}}})
	held.Split = "test"
	_, export := logitRow(t, logprobs(1, []int32{11, 12}, []int32{9, 8, 7}, first), logprobs(2, []int32{13}, []int32{2, 3, 4}, second), other, held)
	for _, vocabulary := range []int{70_001, 131_072, 131_073, 262_144} {
		files, dir, err := export(views.Options{Vocabulary: vocabulary, TopK: 2, TokenizerSHA256: digest})
		if err != nil {
			t.Fatal(err)
		}
		var q quantization
		if err := yaml.UnmarshalWithOptions([]byte(files["compression_config.yaml"]), &q, yaml.Strict()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(quantization{D: vocabulary, K: 2, ExactK: 2, ExactDtype: "float32", TermDtype: "float32", Bins: []any{}}, q); diff != "" {
			t.Error(diff)
		}
		rows := openParquet[views.Logits](t, filepath.Join(dir, "data", "train-00000-of-00001.parquet"))
		if len(rows) != 2 {
			t.Fatalf("%d rows", len(rows))
		}
		read := func(r *views.Logits) (out [][]alternative) {
			for i := range r.InputIDs {
				out = append(out, q.decompress(t, r.CompressedLogprobs[i], r.BytepackedIndices[i]))
			}
			return out
		}
		half := float32(-math.Ln2)
		filler := []alternative{{0, half}, {1, half}}
		cmpRows := cmp.Comparer(func(a, b alternative) bool { return a == b })
		if diff := cmp.Diff([]uint64{11, 12, 9, 8}, rows[0].InputIDs) + cmp.Diff([]int64{-100, -100, 9, 8}, rows[0].Labels); diff != "" {
			t.Error(diff)
		}
		want := [][]alternative{filler, {{9, -0.25}, {70_000, -1.5}}, {{9, -0.1}, {5, -2}}, {{3, 0}, {5, -math.Pi}}}
		if diff := cmp.Diff(want, read(&rows[0]), cmpRows); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]int64{-100, -100, 3}, rows[1].Labels); diff != "" { // nothing is known of what follows token 2
			t.Error(diff)
		}
		want = [][]alternative{{{1, -0.5}, {2, -1}}, filler, {{4, -0.5}, {6, -9}}}
		if diff := cmp.Diff(want, read(&rows[1]), cmpRows); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(files["manifest.json"], "1 tokens have no whole distribution") {
			t.Error(files["manifest.json"])
		}
		checkManifest(t, files)
	}
}

func TestDistillKitRefuses(t *testing.T) {
	good := func() datasets.LogprobRow {
		return logprobs(1, []int32{1}, []int32{2}, [][]alternative{{{1, -1}, {2, -1}}})
	}
	for name, tc := range map[string]struct {
		change func(*datasets.LogprobRow)
		opt    views.Options
		want   string
	}{
		"no ids":         {func(r *datasets.LogprobRow) { r.TokenIDs[0] = nil }, views.Options{Vocabulary: 9}, "not all of its tokens have ids"},
		"no tokenizer":   {func(r *datasets.LogprobRow) { r.TokenizerSHA256 = nil }, views.Options{Vocabulary: 9}, "set tokenizer_sha256 of teacher k1"},
		"no prompt":      {func(r *datasets.LogprobRow) { r.PromptTokenIDs = nil }, views.Options{Vocabulary: 9}, "ids of its prompt"},
		"incomplete":     {func(r *datasets.LogprobRow) { r.Complete = false }, views.Options{Vocabulary: 9}, "logprob_gap"},
		"no vocabulary":  {nil, views.Options{}, "--tokenizer tokenizer.json"},
		"small one":      {nil, views.Options{Vocabulary: 2}, "outside of a vocabulary of 2"},
		"another":        {nil, views.Options{Vocabulary: 9, TokenizerSHA256: strings.Repeat("f", 64)}, "the one that --tokenizer names"},
		"more than all":  {nil, views.Options{Vocabulary: 9, TopK: 3}, "some answers have 2 alternatives"},
		"none of train":  {func(r *datasets.LogprobRow) { r.Split = "test" }, views.Options{Vocabulary: 9}, "no selected answer"},
		"beyond the top": {nil, views.Options{Vocabulary: 1<<20 + 1}, "1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good()
			if tc.change != nil {
				tc.change(&r)
			}
			_, export := logitRow(t, r)
			if _, _, err := export(tc.opt); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	two := good()
	two.TokenizerSHA256, two.SampleID, two.Teacher = ptr(strings.Repeat("e", 64)), "2", "k2"
	f := withTable(t, datasets.TableLogprobs, nil, []datasets.LogprobRow{good(), two})
	if _, err := views.Export(t.Context(), f.c, f.m, views.ViewDistillKit, views.Bucket(mem.New("d"), ""), views.Options{Vocabulary: 9}); !errors.Is(err, views.ErrUnsupported) || !strings.Contains(err.Error(), "2 tokenizers, k1 (0123456789ab…) and k2 (eeeeeeeeeeee…)") {
		t.Errorf("%v", err)
	}
}

func TestReadTokenizer(t *testing.T) {
	for text, want := range map[string]int{
		`{"model":{"vocab":{"a":0,"b":1}},"added_tokens":[{"id":5}]}`: 6,
		`{"model":{"vocab":[["a",-1.5],["b",-2]]}}`:                   2,
		`{"model":{"vocab":{}}}`:                                      0,
		`{"model":{"vocab":{"a":99999999}}}`:                          0,
		`nothing`:                                                     0,
	} {
		digest, size, err := views.ReadTokenizer(strings.NewReader(text))
		if size != want || (err == nil) != (want > 0) || err == nil && len(digest) != 64 {
			t.Errorf("%s: %d %v", text, size, err)
		}
	}
}
