// Package codec encrypts what goes into a Temporal history, so that whoever can
// read the server's database, its backups or its Web UI sees which workflows ran
// when, and not what they were given. It is optional: history holds keys, digests
// and counts, never prompts or answers.
//
// A payload is sealed with AES-256-GCM under a nonce of its own and names the key
// that opens it. The first key of a [Keys] seals, all of them open, so a key is
// exchanged by adding a new one in front everywhere, and taking the old one away
// when the histories that it sealed are gone. Payloads that are not sealed are
// read as they are: encryption may be turned on while builds run.
package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

const (
	// Encoding marks a sealed payload, in the metadata that Temporal's own
	// converters call "encoding".
	Encoding = "binary/stillhouse-sealed"
	// KeyID is the metadata that names the key of a sealed payload.
	KeyID = "stillhouse-key"

	keyBytes  = 32
	mostKeys  = 16
	domain    = "stillhouse history v1" // of the additional data: a payload sealed for something else does not open
	idDigits  = 16
	encodedAs = converter.MetadataEncoding
)

// ErrNoKey is why a sealed payload cannot be read: none of the keys here is the
// one that it names.
var ErrNoKey = errors.New("the key that it was encrypted with is not here")

// A key opens and, where it is the first, seals.
type key struct {
	id   string // hex, of a digest of the key: tells nothing of it
	aead cipher.AEAD
}

// Keys is a payload codec. Without keys it seals nothing, and opening what is
// sealed fails with [ErrNoKey]. It is safe for concurrent use.
type Keys struct{ keys []key }

// Parse reads keys: base64 of 32 bytes each, divided by commas or white space, the
// one that seals first. An error never holds a key.
func Parse(text string) (*Keys, error) {
	k := &Keys{}
	fields := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
	if len(fields) > mostKeys {
		return nil, fmt.Errorf("%d keys are more than the %d that are looked through", len(fields), mostKeys)
	}
	for i, field := range fields {
		raw, err := base64.StdEncoding.DecodeString(field)
		if err != nil || len(raw) != keyBytes {
			return nil, fmt.Errorf("key %d is not base64 of %d bytes; make one with: openssl rand -base64 %d", i+1, keyBytes, keyBytes)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		sum := sha256.Sum256(append([]byte("stillhouse key id\x00"), raw...))
		id := hex.EncodeToString(sum[:])[:idDigits]
		if slices.ContainsFunc(k.keys, func(other key) bool { return other.id == id }) {
			return nil, fmt.Errorf("key %d stands there twice", i+1)
		}
		k.keys = append(k.keys, key{id, aead})
	}
	return k, nil
}

// Seals tells whether there is a key, so that what is written is encrypted.
func (k *Keys) Seals() bool { return len(k.keys) > 0 }

// ID names the key that seals, "" without one.
func (k *Keys) ID() string {
	if !k.Seals() {
		return ""
	}
	return k.keys[0].id
}

// Encode implements converter.PayloadCodec. What is sealed already, such as a
// payload that a workflow passes on as it is, stays so.
func (k *Keys) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	if !k.Seals() {
		return payloads, nil
	}
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if sealed(p) {
			out[i] = p
			continue
		}
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encrypt a payload: %w", err)
		}
		by := k.keys[0]
		nonce := make([]byte, by.aead.NonceSize(), by.aead.NonceSize()+len(plain)+by.aead.Overhead())
		_, _ = rand.Read(nonce) // never fails: the program ends instead
		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{encodedAs: []byte(Encoding), KeyID: []byte(by.id)},
			Data:     by.aead.Seal(nonce, nonce, plain, bound(by.id)),
		}
	}
	return out, nil
}

// Decode implements converter.PayloadCodec.
func (k *Keys) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if !sealed(p) {
			out[i] = p
			continue
		}
		var err error
		if out[i], err = k.open(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (k *Keys) open(p *commonpb.Payload) (*commonpb.Payload, error) {
	id := string(p.GetMetadata()[KeyID])
	at := slices.IndexFunc(k.keys, func(one key) bool { return one.id == id })
	if at < 0 {
		return nil, fmt.Errorf("history is encrypted (key %.*q): %w; give it with STILLHOUSE_CODEC_KEY or STILLHOUSE_CODEC_KEY_FILE", idDigits+2, id, ErrNoKey)
	}
	by := k.keys[at]
	if len(p.GetData()) < by.aead.NonceSize() {
		return nil, fmt.Errorf("history is encrypted (key %s), but a payload of it is cut", id)
	}
	nonce, text := p.GetData()[:by.aead.NonceSize()], p.GetData()[by.aead.NonceSize():]
	plain, err := by.aead.Open(nil, nonce, text, bound(id))
	if err != nil {
		return nil, fmt.Errorf("history is encrypted (key %s), but a payload of it was changed or damaged", id)
	}
	opened := &commonpb.Payload{}
	if err := proto.Unmarshal(plain, opened); err != nil {
		return nil, fmt.Errorf("history is encrypted (key %s): %w", id, err)
	}
	return opened, nil
}

func sealed(p *commonpb.Payload) bool { return string(p.GetMetadata()[encodedAs]) == Encoding }

// bound is the additional data of a payload.
func bound(id string) []byte { return []byte(domain + "\x00" + id) }

// Converter is the data converter of clients and workers: Temporal's own, with k
// around it.
func (k *Keys) Converter() converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), k)
}
