package activities

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Endpoints keep what they have read of a prompt in a context cache, by its
// beginning: whoever sends the same beginning soon after is billed a fraction
// for it. The shortest beginning that they keep is around 1,024 tokens.
const (
	// prefixLeast is the shortest beginning that prompts are ordered by, in bytes.
	prefixLeast = 4000
	// prefixMost ends the levels: longer beginnings are as good as equal.
	prefixMost = 256 << 20
)

// prefixSizes are the lengths at which beginnings are compared, in bytes: each
// is a quarter more than the one before, so that of what two prompts share at
// most a fifth goes unseen and a million characters make 25 levels.
var prefixSizes = func() (sizes []int) {
	for n := prefixLeast; n < prefixMost; n += n / 4 {
		sizes = append(sizes, n)
	}
	return sizes
}()

// A chain names the beginnings of a prompt, the shortest first: two prompts
// with the same link have all up to there in common. A link is 64 bits of a
// hash; two that are equal by chance cost one order, never an answer.
type chain []uint64

// prefixChain is the chain of a prompt in the order in which endpoints read it:
// tools, system text, messages. It is empty below prefixLeast.
func prefixChain(p *chat.Prompt) chain {
	if promptText(p) < prefixLeast {
		return nil
	}
	w := prefixWriter{hash: sha256.New()}
	w.text(p.Tools)
	w.text(p.System)
	for i := range p.Images {
		w.text(p.Images[i].Digest)
	}
	for i := range p.Messages {
		w.message(&p.Messages[i])
	}
	return w.links
}

// promptText counts the bytes that a chain is made of.
func promptText(p *chat.Prompt) int {
	var w prefixWriter
	n := len(p.Tools) + len(p.System) + 2
	for i := range p.Images {
		n += len(p.Images[i].Digest) + 1
	}
	for i := range p.Messages {
		w.counted = 0
		w.message(&p.Messages[i])
		n += w.counted
	}
	return n
}

// A prefixWriter hashes a prompt and takes a link at every length. Without a
// hash it only counts.
type prefixWriter struct {
	hash    hash.Hash
	counted int
	links   chain
}

func (w *prefixWriter) message(m *chat.Message) {
	w.text(m.Role)
	w.optional(m.ReasoningContent)
	w.optional(m.Content)
	for i := range m.ToolCalls {
		w.text(m.ToolCalls[i].Name)
		w.text(m.ToolCalls[i].Arguments)
	}
}

func (w *prefixWriter) optional(s *string) {
	if s != nil {
		w.text(*s)
	}
}

// text takes a part of the prompt, ended by a zero byte.
func (w *prefixWriter) text(s string) {
	if w.hash == nil {
		w.counted += len(s) + 1
		return
	}
	for {
		room := prefixMost
		if len(w.links) < len(prefixSizes) {
			room = prefixSizes[len(w.links)] - w.counted
		}
		if len(s) < room {
			break
		}
		w.write(s[:room])
		s = s[room:]
		if len(w.links) < len(prefixSizes) {
			w.links = append(w.links, binary.BigEndian.Uint64(w.hash.Sum(nil)))
		}
	}
	w.write(s)
	w.hash.Write([]byte{0})
	w.counted++
}

func (w *prefixWriter) write(s string) {
	w.hash.Write([]byte(s))
	w.counted += len(s)
}

// groupLink is the link that all tasks of a declared group begin with.
func groupLink(group string) uint64 {
	sum := sha256.Sum256([]byte("group\x00" + group))
	return binary.BigEndian.Uint64(sum[:])
}

// taskChain is what a task shares with others: its declared group, then the
// beginnings of its prompt.
func taskChain(t *datasets.Task) chain {
	links := prefixChain(&t.Prompt)
	if t.Group == "" {
		return links
	}
	return append(chain{groupLink(t.Group)}, links...)
}

// at is the chain of the same prompt as it is sent at an effort, which may
// change what the endpoint puts before it.
func (c chain) at(effort string) chain {
	if len(c) == 0 {
		return nil
	}
	sum := sha256.Sum256([]byte("effort\x00" + effort))
	salt := binary.BigEndian.Uint64(sum[:])
	out := make(chain, len(c))
	for i, link := range c {
		out[i] = link ^ salt
	}
	return out
}

// linkText is how long a link's text is in a key.
const linkText = 16

// key orders chains so that those with most in common are neighbours.
func (c chain) key() string {
	raw := make([]byte, 0, 8*len(c))
	for _, link := range c {
		raw = binary.BigEndian.AppendUint64(raw, link)
	}
	return hex.EncodeToString(raw)
}

// sharedLinks is how many links two keys begin with alike, at most 255.
func sharedLinks(a, b string) byte {
	n := 0
	for n < 255 && len(a) >= linkText && len(b) >= linkText && a[:linkText] == b[:linkText] {
		a, b = a[linkText:], b[linkText:]
		n++
	}
	return byte(n)
}
