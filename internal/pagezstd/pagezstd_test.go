package pagezstd

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
)

func TestPagesComeBackAsTheyWere(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 3<<20)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	pages := map[string][]byte{
		"empty": {},
		"short": []byte("a"),
		"text":  bytes.Repeat([]byte("the answer is 42; "), 5_000),
		"noise": noise,
		// Longer than the window, and alike across more than it.
		"long": append(append([]byte{}, noise...), noise...),
	}
	for _, codec := range []*Codec{Fastest, Default} {
		var wg sync.WaitGroup
		for name, page := range pages {
			wg.Go(func() {
				packed, err := codec.Encode(nil, page)
				if err != nil || len(packed) == 0 {
					t.Errorf("%s: packed into %d bytes: %v", name, len(packed), err)
					return
				}
				if back, err := codec.Decode(make([]byte, 3), packed); err != nil || !bytes.Equal(back, page) {
					t.Errorf("%s: another page came back: %v", name, err)
				}
			})
		}
		wg.Wait()
	}
}

func TestDamagedPageIsAnError(t *testing.T) {
	packed, err := Default.Encode(nil, bytes.Repeat([]byte("page"), 1000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Default.Decode(nil, packed[:len(packed)-3]); err == nil {
		t.Error("a page that was cut was read")
	}
}
