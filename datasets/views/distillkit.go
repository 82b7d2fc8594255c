package views

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// ViewDistillKit is the view of the teachers' probabilities: what Arcee's
// DistillKit reads as an offline teacher.
const ViewDistillKit = "distillkit"

// compressionName is the file that says how the logits are packed.
const compressionName = "compression_config.yaml"

// Bounds of the logits that are packed.
const (
	// maxVocabulary keeps the width of an index what DistillKit reckons: it
	// takes the logarithm in 32 bits, which rounds wrongly above.
	maxVocabulary = 1 << 20
	maxTopK       = 1024
)

// unlabelled is the label of a token that no loss sees.
const unlabelled = -100

func init() {
	register(View{
		Name: ViewDistillKit, Summary: "the teachers' top-k probabilities, packed as DistillKit reads them",
		Reads: Logprobs, Extra: []string{extraLogits},
		Shape: func(*Options) (Shape, error) {
			return withPlan(logitProse, func(p *plan, r *datasets.LogprobRow) (Logits, error) {
				if !r.Selected || r.Split != p.logits.split {
					return Logits{}, errElsewhere
				}
				return p.logits.pack(r)
			}), nil
		},
		Check:  checkLogits,
		Beside: []func(context.Context, sink, *plan, *catalog.Manifest, *about) error{writeCompression},
	})
}

const logitProse = "`input_ids` are prompt and answer in the tokens of the teacher, `labels` the same with -100 where nothing is learned: in the prompt, and where the endpoint did not tell a probability. Entry t of `compressed_logprobs` and `bytepacked_indices` is the distribution over the token after t, packed as `" + compressionName + "` says: give it to DistillKit as `logprob_compressor`. The last token of the answer is a target and no input, so that it is not in `input_ids`."

// Logprobs is the table of the answers' log probabilities: datasets.LogprobRow.
var Logprobs = Source{
	files: func(m *catalog.Manifest, split string) []catalog.FileRef {
		if split != datasets.TableTrain { // its files hold the rows of every split
			return nil
		}
		return m.TableFiles(datasets.TableLogprobs)
	},
	teachers: func(m *catalog.Manifest) map[string]int64 {
		rows := map[string]int64{}
		for _, f := range m.TableFiles(datasets.TableLogprobs) {
			for id, n := range f.Teachers {
				rows[id] += n
			}
		}
		return rows
	},
	none: "no selected answer of the train split has log probabilities; the recipe has to ask for them: logprobs: {top: 20}",
	some: true,
}

// A Logits is a row of the view. Its lists are of one length: the tokens of the
// prompt and of the answer but its last.
//
// DistillKit declares the bytes as lists of 8-bit numbers; here they are of 16
// bits, since a list of bytes is a binary value in Parquet. Its reader takes
// any width.
type Logits struct {
	InputIDs           []uint64   `json:"input_ids" parquet:"input_ids,list"`
	Labels             []int64    `json:"labels" parquet:"labels,list"`
	CompressedLogprobs [][]uint16 `json:"compressed_logprobs" parquet:"compressed_logprobs,list"`
	BytepackedIndices  [][]uint16 `json:"bytepacked_indices" parquet:"bytepacked_indices,list"`
	SampleID           string     `json:"sample_id" parquet:"sample_id"`
}

// A logitLayout is how the logits of a version are packed: k logprobs of 32 bits
// each, little-endian, the largest first, and k indices of bits each, the
// highest bit first.
type logitLayout struct {
	split  string
	k      int
	d      int // size of the vocabulary
	bits   int
	filler [2][]uint16 // a distribution for positions that nothing is known of

	tokenizer string // digest
	masked    int64  // positions of answers that nothing is known of
}

func newLayout(k, d int) *logitLayout {
	l := &logitLayout{split: datasets.TableTrain, k: k, d: d, bits: indexBits(d)}
	ids, values := make([]int32, k), make([]float32, k)
	for i := range ids {
		ids[i], values[i] = int32(i), float32(-math.Log(float64(k)))
	}
	l.filler[0], l.filler[1] = packLogprobs(values), packIndices(ids, l.bits)
	return l
}

// indexBits is the width of an index into d tokens, as DistillKit reckons it.
func indexBits(d int) int {
	return max(1, int(math.Ceil(float64(float32(math.Log2(float64(d)))))))
}

// packLogprobs is the bytes of 32-bit numbers, little-endian.
func packLogprobs(values []float32) []uint16 {
	out := make([]uint16, 0, 4*len(values))
	var four [4]byte
	for _, v := range values {
		binary.LittleEndian.PutUint32(four[:], math.Float32bits(v))
		for _, b := range four {
			out = append(out, uint16(b))
		}
	}
	return out
}

// packIndices is the bytes of numbers of so many bits each, one after the
// other, the highest bit first; zero bits fill up the last byte.
func packIndices(ids []int32, bits int) []uint16 {
	out := make([]uint16, 0, (len(ids)*bits+7)/8)
	held, n := uint64(0), 0
	for _, id := range ids {
		held = held<<bits | uint64(id)
		for n += bits; n >= 8; n -= 8 {
			out = append(out, uint16(held>>(n-8)&0xff))
		}
	}
	if n > 0 {
		out = append(out, uint16(held<<(8-n)&0xff))
	}
	return out
}

// pack makes a row of one answer's log probabilities.
func (l *logitLayout) pack(r *datasets.LogprobRow) (Logits, error) {
	if why := unpackable(r); why != "" {
		return Logits{}, fmt.Errorf("%w: sample %s: %s", ErrUnsupported, r.SampleID, why)
	}
	prompt, answer := len(r.PromptTokenIDs), len(r.TokenIDs)
	n := prompt + answer - 1
	out := Logits{
		InputIDs: make([]uint64, 0, n), Labels: make([]int64, 0, n), SampleID: r.SampleID,
		CompressedLogprobs: make([][]uint16, n), BytepackedIndices: make([][]uint16, n),
	}
	for _, id := range r.PromptTokenIDs {
		out.InputIDs, out.Labels = append(out.InputIDs, uint64(id)), append(out.Labels, unlabelled)
	}
	for _, id := range r.TokenIDs[:answer-1] {
		out.InputIDs, out.Labels = append(out.InputIDs, uint64(*id)), append(out.Labels, int64(*id))
	}
	for _, id := range out.InputIDs {
		if id >= uint64(l.d) {
			return Logits{}, fmt.Errorf("%w: sample %s: token id %d is outside of the vocabulary of %d", ErrUnsupported, r.SampleID, id, l.d)
		}
	}
	for t := range n {
		// The entry at t is the distribution that the next token was drawn from.
		values, ids, known := l.top(r, t+1-prompt)
		if !known {
			out.CompressedLogprobs[t], out.BytepackedIndices[t] = l.filler[0], l.filler[1]
			if t >= prompt {
				out.Labels[t] = unlabelled
				l.masked++
			}
			continue
		}
		out.CompressedLogprobs[t], out.BytepackedIndices[t] = packLogprobs(values), packIndices(ids, l.bits)
	}
	return out, nil
}

// top gives the k likeliest alternatives of the answer's token i, the likeliest
// first; known is false in the prompt, and where one of them is not known whole.
func (l *logitLayout) top(r *datasets.LogprobRow, i int) (values []float32, ids []int32, known bool) {
	if i < 0 || i >= len(r.TokenIDs) {
		return nil, nil, false
	}
	type slot struct {
		id int32
		p  float32
	}
	k := int(r.TopK)
	slots := make([]slot, 0, k)
	for j := i * k; j < (i+1)*k; j++ {
		id, p := r.TopTokenIDs[j], r.TopLogprobs[j]
		if id == nil || p == nil || *id < 0 || int(*id) >= l.d || *p > 0 {
			continue
		}
		slots = append(slots, slot{*id, *p})
	}
	slices.SortStableFunc(slots, func(a, b slot) int { return cmp.Or(cmp.Compare(b.p, a.p), cmp.Compare(a.id, b.id)) })
	slots = slices.CompactFunc(slots, func(a, b slot) bool { return a == b }) // the token itself, told twice
	if len(slots) < l.k {
		return nil, nil, false
	}
	for _, s := range slots[:l.k] {
		values, ids = append(values, s.p), append(ids, s.id)
	}
	return values, ids, true
}

// unpackable says why an answer's row can't be a row of the view; "" where it
// can.
func unpackable(r *datasets.LogprobRow) string {
	switch n := len(r.TokenIDs); {
	case n == 0 || slices.Contains(r.TokenIDs, nil):
		return "not all of its tokens have ids; the endpoint has to tell them, as vLLM does with return_token_ids"
	case r.TokenizerSHA256 == nil:
		return "the digest of its tokenizer is not known, so that nothing says whose ids these are; set tokenizer_sha256 of teacher " + r.Teacher + " in the recipe and build again, which asks nothing anew"
	case len(r.PromptTokenIDs) == 0:
		return "the token ids of its prompt are not known; the endpoint has to tell them, as vLLM does with return_token_ids"
	case r.TopK < 1 || len(r.TopTokenIDs) == 0:
		return "its alternatives have no token ids"
	case len(r.TopTokenIDs) != n*int(r.TopK) || len(r.TopLogprobs) != n*int(r.TopK):
		return "its lists are not of one length"
	case !r.Complete:
		return "its log probabilities have gaps at its ends (flag logprob_gap)"
	}
	return ""
}

// checkLogits looks at every row that will be exported: they are of one
// tokenizer, and k is what all of them have.
func checkLogits(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, p *plan) error {
	if len(m.TableFiles(datasets.TableLogprobs)) == 0 {
		return fmt.Errorf("%w: the version has no log probabilities; its recipe has to ask for them: logprobs: {top: 20}", ErrNoRows)
	}
	least, rows, highest := maxTopK, int64(0), int32(0)
	tokenizers := map[string]string{} // digest to a teacher
	for r, err := range catalog.ReadTable[datasets.LogprobRow](ctx, cat, m, datasets.TableLogprobs) {
		if err != nil {
			return err
		}
		if !r.Selected || r.Split != datasets.TableTrain || p.forbidden[r.Teacher] || unpackable(&r) != "" {
			continue
		}
		rows++
		least = min(least, int(r.TopK))
		tokenizers[*r.TokenizerSHA256] = r.Teacher
		for _, id := range r.TopTokenIDs {
			if id != nil {
				highest = max(highest, *id)
			}
		}
		highest = max(highest, slices.Max(r.PromptTokenIDs))
	}
	if len(tokenizers) > 1 {
		var names []string
		for _, sum := range sortedKeys(tokenizers) {
			names = append(names, fmt.Sprintf("%s (%.12s…)", tokenizers[sum], sum))
		}
		return fmt.Errorf("%w: the answers are of %d tokenizers, %s; ids of two never mean the same: build a dataset of each", ErrUnsupported, len(tokenizers), strings.Join(names, " and "))
	}
	return p.settleLogits(rows, least, int(highest), tokenizers)
}

// settleLogits fixes k and the vocabulary.
func (p *plan) settleLogits(rows int64, least, highest int, tokenizers map[string]string) error {
	digest := ""
	for sum := range tokenizers {
		digest = sum
	}
	if want := p.opt.TokenizerSHA256; want != "" && digest != "" && want != digest {
		return fmt.Errorf("%w: the answers are of the tokenizer %s, and the one that --tokenizer names is %s", ErrUnsupported, digest, want)
	}
	if p.opt.Vocabulary == 0 && rows > 0 {
		return fmt.Errorf("%w option: the size of the vocabulary is not known, and DistillKit needs it; name the tokenizer's file: --tokenizer tokenizer.json, or the size: --vocabulary N", ErrUnknownView)
	}
	if rows > 0 && highest >= p.opt.Vocabulary {
		return fmt.Errorf("%w: token id %d is outside of a vocabulary of %d; is that the teacher's tokenizer?", ErrUnsupported, highest, p.opt.Vocabulary)
	}
	if p.opt.TopK > least && rows > 0 {
		return fmt.Errorf("%w option: --top-k %d: some answers have %d alternatives a token", ErrUnknownView, p.opt.TopK, least)
	}
	k := p.opt.TopK
	if k == 0 {
		k = least
	}
	p.logits = newLayout(k, max(p.opt.Vocabulary, k, 2))
	p.logits.tokenizer = digest
	return nil
}

// writeCompression writes compression_config.yaml, as DistillKit writes it
// beside logits that it captures itself.
func writeCompression(ctx context.Context, s sink, p *plan, _ *catalog.Manifest, a *about) error {
	l := p.logits
	text := fmt.Sprintf(`# How the logits are packed; DistillKit's DistributionQuantizationConfig.
d: %d
k: %d
exact_k: %d
exact_dtype: float32
polynomial_terms: null
term_dtype: float32
residual_bins: []
delta_encoding: false
error_diffusion: false
normalize_t: false
`, l.d, l.k, l.k)
	file, err := s.write(ctx, compressionName, func(w io.Writer) (int64, error) {
		_, err := io.WriteString(w, text)
		return 0, err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", compressionName, err)
	}
	if l.masked > 0 {
		a.Warnings = append(a.Warnings, fmt.Sprintf("%d tokens have no whole distribution, such as those with fewer than %d alternatives; nothing is learned there", l.masked, l.k))
	}
	a.Files = append(a.Files, file)
	return nil
}
