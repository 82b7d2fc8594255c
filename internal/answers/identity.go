package answers

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// An Identity is everything that may change what a teacher answers.
type Identity struct {
	Endpoint string            // endpoint identity, 32 hex digits
	Epoch    int               // raised by the user to ask everything anew
	Body     []byte            // RFC 8785 JSON of the request without transport fields and token cap
	CapField string            // the cap's name in the request, such as max_completion_tokens
	Cap      int64             // 0: none
	Headers  map[string]string // request headers that change the answer; names are compared without case
	Images   []string          // hex SHA-256 of each image, in order
	Sample   int               // sample index, from 0
}

// Identify names the ask. Its key is SHA-256 over the RFC 8785 JSON of
//
//	{"body":…,"endpoint":…,"epoch":…,"headers":{…},"images":[…],"sample":…}
//
// and its id is the same with "cap":{"<field>":<n>} after the body where there
// is a cap. Body is trusted to be canonical and is hashed once.
func Identify(id Identity) Ask {
	h := sha256.New()
	h.Write([]byte(`{"body":`))
	h.Write(id.Body)
	tail := id.appendTail(nil)

	ask := Ask{Endpoint: id.Endpoint, Cap: id.Cap, Sample: id.Sample}
	if id.Cap == 0 {
		h.Write(tail)
		h.Sum(ask.Key[:0])
		ask.ID = hex.EncodeToString(ask.Key[:])
		return ask
	}
	capped := clone(h)
	h.Write(tail)
	h.Sum(ask.Key[:0])

	member := append([]byte(nil), `,"cap":{`...)
	member = chat.AppendString(member, id.CapField)
	member = append(member, ':')
	member = strconv.AppendInt(member, id.Cap, 10)
	member = append(member, '}')
	capped.Write(member)
	capped.Write(tail)
	ask.ID = hex.EncodeToString(capped.Sum(member[:0]))
	return ask
}

// appendTail appends the members after body and cap, in canonical order.
func (id *Identity) appendTail(dst []byte) []byte {
	dst = append(dst, `,"endpoint":`...)
	dst = chat.AppendString(dst, id.Endpoint)
	dst = append(dst, `,"epoch":`...)
	dst = strconv.AppendInt(dst, int64(id.Epoch), 10)
	dst = append(dst, `,"headers":{`...)
	dst = appendHeaders(dst, id.Headers)
	dst = append(dst, `},"images":[`...)
	for i, digest := range id.Images {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = chat.AppendString(dst, digest)
	}
	dst = append(dst, `],"sample":`...)
	dst = strconv.AppendInt(dst, int64(id.Sample), 10)
	return append(dst, '}')
}

// appendHeaders appends the members of an object, names in lower case. Header
// names are ASCII, so their byte order is RFC 8785's.
func appendHeaders(dst []byte, headers map[string]string) []byte {
	type header struct{ name, value string }
	sorted := make([]header, 0, len(headers))
	for name, value := range headers {
		sorted = append(sorted, header{strings.ToLower(name), value})
	}
	slices.SortFunc(sorted, func(a, b header) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	for i, h := range sorted {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = chat.AppendString(dst, h.name)
		dst = append(dst, ':')
		dst = chat.AppendString(dst, h.value)
	}
	return dst
}

// clone copies the state of a SHA-256, so that the body is hashed once.
func clone(h hash.Hash) hash.Hash {
	state, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic("answers: sha256 state: " + err.Error()) // crypto/sha256 never fails here
	}
	c := sha256.New()
	if err := c.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		panic("answers: sha256 state: " + err.Error())
	}
	return c
}
