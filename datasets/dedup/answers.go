package dedup

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// AnswerKey is the same for answers to one task that are exact duplicates:
// text, reasoning and tool calls say the same. Everything counts but white
// space and the ids of the calls, whatever the domain. ok is false where there
// is no answer, which is equal to none.
func AnswerKey(c *datasets.Candidate) (key Key, ok bool) {
	m := c.Answer()
	if m == nil {
		return Key{}, false
	}
	return keyOf(appendAnswer(nil, m)), true
}

// appendAnswer adds what an answer says: everything counts but white space.
func appendAnswer(dst []byte, m *chat.Message) []byte {
	for _, part := range []*string{m.Content, m.ReasoningContent} {
		text := ""
		if part != nil {
			text = *part
		}
		dst = appendField(dst, appendNormal(nil, Verbatim, text))
	}
	return appendCalls(dst, m)
}

// appendCalls adds the calls of tools: names and arguments.
func appendCalls(dst []byte, m *chat.Message) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(m.ToolCalls)))
	for i := range m.ToolCalls {
		dst = appendField(dst, []byte(m.ToolCalls[i].Name))
		dst = appendField(dst, canonical(m.ToolCalls[i].Arguments))
	}
	return dst
}

// An AnswerComparer tells whether two answers to one task say nearly the same.
// It is safe for use by several goroutines.
type AnswerComparer struct {
	options NearOptions

	mu      sync.Mutex
	extract *extractor
	held    map[string]*features // by sample id
	size    int                  // of what is held, in bytes
}

// NewAnswerComparer compares answers by options, of which bands and rows do not
// matter: all answers to a task can be compared with all.
func NewAnswerComparer(o NearOptions) (*AnswerComparer, error) {
	o = o.WithDefaults()
	if err := o.Check(); err != nil {
		return nil, err
	}
	return &AnswerComparer{options: o, extract: newExtractor(o)}, nil
}

// Near tells whether the texts of two answers, with their reasoning, are
// near-duplicates. Their tool calls must be equal.
func (n *AnswerComparer) Near(a, b *datasets.Candidate) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.size > n.options.Memory {
		n.held, n.size = nil, 0
	}
	x, y := n.features(a), n.features(b)
	if x == nil || y == nil {
		return false
	}
	_, near := alike(&n.options, x, y)
	return near
}

// Forget gives back what is held of the answers to a task that is done with.
func (n *AnswerComparer) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held, n.size = nil, 0
}

// features are held, since an answer is compared with many. What is held is
// bounded by the options, and never by how many answers a task has.
func (n *AnswerComparer) features(c *datasets.Candidate) *features {
	if f, ok := n.held[c.SampleID]; ok {
		return f
	}
	m := c.Answer()
	if m == nil {
		return nil
	}
	var text strings.Builder
	for _, part := range []*string{m.ReasoningContent, m.Content} {
		if part != nil {
			text.WriteString(*part)
			text.WriteByte('\n')
		}
	}
	calls := keyOf(appendCalls(nil, m))
	f := n.extract.features(&Document{Text: text.String(), Context: binary.LittleEndian.Uint64(calls[:]), Style: StyleOf(c.Domain)})
	kept := &features{fixed: f.fixed, shingles: slices.Clone(f.shingles), names: slices.Clone(f.names), words: slices.Clone(f.words)}
	if n.held == nil {
		n.held = map[string]*features{}
	}
	n.held[c.SampleID] = kept
	n.size += 128 + 8*len(kept.shingles) + 4*(len(kept.names)+len(kept.words))
	return kept
}
