package codec

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/proto"
)

func newKey(t *testing.T) string {
	t.Helper()
	raw := make([]byte, keyBytes)
	_, _ = rand.Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

func parse(t *testing.T, text string) *Keys {
	t.Helper()
	k, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

type input struct{ Dataset, Secret string }

func TestSealedPayloadsComeBack(t *testing.T) {
	k := parse(t, newKey(t))
	in := input{"maths", "the name of a customer"}
	first, err := k.Converter().ToPayloads(in, 7)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.Converter().ToPayloads(in, 7)
	if err != nil {
		t.Fatal(err)
	}
	if proto.Equal(first, again) {
		t.Error("equal inputs are sealed alike: a reader learns that they are equal")
	}
	wire, err := proto.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(wire, []byte("customer")) || bytes.Contains(wire, []byte("json/plain")) {
		t.Errorf("the plain text is in what is sent: %q", wire)
	}
	var got input
	var n int
	if err := k.Converter().FromPayloads(first, &got, &n); err != nil || got != in || n != 7 {
		t.Errorf("came back as %+v, %d, %v", got, n, err)
	}
}

// A key is exchanged while histories live: the new one seals, both open.
func TestKeysAreExchanged(t *testing.T) {
	older, newer := newKey(t), newKey(t)
	old, both, new := parse(t, older), parse(t, newer+",\n "+older), parse(t, newer)
	was, err := old.Converter().ToPayload("x")
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := both.Converter().FromPayload(was, &got); err != nil || got != "x" {
		t.Errorf("what the old key sealed: %q, %v", got, err)
	}
	is, err := both.Converter().ToPayload("y")
	if err != nil {
		t.Fatal(err)
	}
	if err := new.Converter().FromPayload(is, &got); err != nil || got != "y" {
		t.Errorf("what both seal, the first alone does not open: %q, %v", got, err)
	}
	err = new.Converter().FromPayload(was, &got)
	if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), old.ID()) || !strings.Contains(err.Error(), "STILLHOUSE_CODEC_KEY") {
		t.Errorf("without the old key: %v; want which one is missing, and where to give it", err)
	}
	// What is sealed already, and passed on, is not sealed twice.
	kept, err := both.Encode([]*commonpb.Payload{was})
	if err != nil || !proto.Equal(kept[0], was) {
		t.Errorf("passed on as %v, %v", kept, err)
	}
}

func TestHistoriesMayBeMixed(t *testing.T) {
	none := parse(t, " \n")
	if none.Seals() || none.ID() != "" {
		t.Error("no key seals")
	}
	plain, err := none.Converter().ToPayload("plain")
	if err != nil || string(plain.GetMetadata()["encoding"]) != "json/plain" {
		t.Fatalf("without keys: %v, %v", plain, err)
	}
	k := parse(t, newKey(t))
	var got string
	if err := k.Converter().FromPayload(plain, &got); err != nil || got != "plain" {
		t.Errorf("written before the key was there: %q, %v", got, err)
	}
	closed, err := k.Converter().ToPayload("sealed")
	if err != nil {
		t.Fatal(err)
	}
	if err := none.Converter().FromPayload(closed, &got); !errors.Is(err, ErrNoKey) {
		t.Errorf("without keys a sealed payload: %v", err)
	}
}

func TestChangedPayloadsAreRefused(t *testing.T) {
	k := parse(t, newKey(t))
	p, err := k.Converter().ToPayload("value")
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Data {
		bad := proto.Clone(p).(*commonpb.Payload)
		bad.Data[i] ^= 1
		var got string
		if err := k.Converter().FromPayload(bad, &got); err == nil {
			t.Fatalf("byte %d changed, and it was read as %q", i, got)
		}
	}
	for n := range len(p.Data) {
		bad := proto.Clone(p).(*commonpb.Payload)
		bad.Data = bad.Data[:n]
		if _, err := k.Decode([]*commonpb.Payload{bad}); err == nil {
			t.Fatalf("cut to %d bytes, and it was read", n)
		}
	}
}

func TestWrongKeysAreNamedByTheirPlace(t *testing.T) {
	good := newKey(t)
	for text, want := range map[string]string{
		"c2hvcnQ=":                           "key 1 is not base64 of 32 bytes",
		good + ",not base64!":                "key 2 is not base64",
		good + "," + good:                    "key 2 stands there twice",
		strings.Repeat(good+",", mostKeys+1): "more than the 16",
		base64.StdEncoding.EncodeToString(make([]byte, 16)): "key 1 is not base64 of 32 bytes",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		} else if strings.Contains(err.Error(), good) || strings.Contains(err.Error(), "c2hvcnQ") {
			t.Errorf("the message holds a key: %v", err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	k, err := Parse(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, keyBytes)))
	if err != nil {
		f.Fatal(err)
	}
	p, err := k.Converter().ToPayload("value")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(k.ID()), p.Data)
	f.Add([]byte("other"), []byte{})
	f.Fuzz(func(t *testing.T, id, data []byte) {
		in := &commonpb.Payload{Metadata: map[string][]byte{encodedAs: []byte(Encoding), KeyID: id}, Data: data}
		if out, err := k.Decode([]*commonpb.Payload{in}); err == nil && !bytes.Equal(data, p.Data) {
			t.Errorf("opened what nobody sealed: %v", out)
		}
	})
}
