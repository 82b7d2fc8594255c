package dedup

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func FuzzNormal(f *testing.F) {
	for _, text := range []string{"", "-4 is not 4", "C# and C++", "a . b , 5 - - x", "ǅ J̌ İ ẞ", "中文 abc 42，", "x\u200by \u00a0 z", "\xff\xfe", "ภาษาไทย", "((5)).", "a-b_c %d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, style := range []Style{Prose, Verbatim} {
			form := Normal(style, text)
			if again := Normal(style, form); again != form {
				t.Errorf("style %d: %q becomes %q and that %q", style, text, form, again)
			}
			if strings.Contains(form, "  ") || strings.TrimSpace(form) != form {
				t.Errorf("style %d: %q becomes %q: white space is not collapsed", style, text, form)
			}
			if !utf8.ValidString(text) {
				continue
			}
			if other := Normal(style, norm.NFD.String(text)); other != form {
				t.Errorf("style %d: %q becomes %q, and decomposed %q", style, text, form, other)
			}
			if other := Normal(style, " \n"+strings.ReplaceAll(text, " ", "  ")+"\t"); other != form && !strings.Contains(text, "\n") {
				t.Errorf("style %d: %q becomes %q, and with more white space %q", style, text, form, other)
			}
		}
		if Normal(Verbatim, text) == "" && Normal(Prose, text) != "" || Normal(Prose, text) == "" && Normal(Verbatim, text) != "" {
			t.Errorf("%q is empty in one style only", text)
		}
	})
}

func FuzzFeatures(f *testing.F) {
	for _, text := range []string{"", "Call f(\"x\", 'y', `z`) = 3", "“a” 「b」 «c» \"", "It's a dog's life, isn't it?", "no\u0301 中文三百字", "\xe2\x80", "'''''", "a 'b' c' 'd"} {
		f.Add(text, "the other text")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, o := range []NearOptions{{}, {AnyValues: true, Shingle: 1, Jaccard: 0.3}} {
			o = o.WithDefaults()
			x := newExtractor(o)
			hashes := newMinhasher(o)
			for _, style := range []Style{Prose, Verbatim} {
				one := cloned(x.features(&Document{Text: a, Style: style}))
				two := cloned(x.features(&Document{Text: b, Style: style}))
				again := x.features(&Document{Text: a, Style: style})
				if !slices.Equal(one.shingles, again.shingles) || one.fixed != again.fixed {
					t.Fatalf("%q has other features the second time", a)
				}
				if !slices.IsSorted(one.shingles) || !slices.IsSorted(one.names) || !slices.IsSorted(one.words) {
					t.Fatalf("%q: features are not sorted", a)
				}
				ab, nearAB := alike(&o, &one, &two)
				ba, nearBA := alike(&o, &two, &one)
				if ab != ba || nearAB != nearBA || ab < 0 || ab > 1 {
					t.Fatalf("%q and %q: %v %v, the other way around %v %v", a, b, ab, nearAB, ba, nearBA)
				}
				if j, near := alike(&o, &one, &one); len(one.shingles) > 0 && (j != 1 || !near) {
					t.Fatalf("%q is not like itself: %v %v", a, j, near)
				}
				if keys := hashes.keys(nil, &one); len(keys) != o.Bands || (keys[0] == 0) != (len(one.shingles) == 0) {
					t.Fatalf("%q has the keys %v", a, keys)
				}
				var read features
				if err := read.parse(appendFeatures(nil, &one)); err != nil || !slices.Equal(read.shingles, one.shingles) || !slices.Equal(read.names, one.names) || !slices.Equal(read.words, one.words) || read.fixed != one.fixed {
					t.Fatalf("%q: features are read back as others: %v", a, err)
				}
			}
		}
	})
}

func cloned(f *features) features {
	return features{fixed: f.fixed, shingles: slices.Clone(f.shingles), names: slices.Clone(f.names), words: slices.Clone(f.words)}
}

// FuzzOpenPart reads what may be damaged: an error or something that was
// there, never a panic.
func FuzzOpenPart(f *testing.F) {
	o := NearOptions{Bands: 2, Rows: 2}
	whole := writePart(f, o, []Document{{Order: 1, Text: "one two three four five six Paris"}, {Order: 2, Text: "one two three four five six Paris"}, {Order: 3}})
	f.Add(whole, []byte(pairsMagic+"\x00\x00\x00\x00"), 0)
	f.Add(whole[:60], []byte{}, 3)
	f.Fuzz(func(t *testing.T, part, pairs []byte, at int) {
		if at >= 0 && at < len(whole) { // damage that no checksum covers
			damaged := slices.Clone(whole)
			damaged[at] ^= 0x15
			verifyBytes(damaged, pairs)
		}
		verifyBytes(part, pairs)
	})
}

func verifyBytes(part, pairs []byte) {
	o := NearOptions{Bands: 2, Rows: 2}
	p, err := OpenPart(bytes.NewReader(part), int64(len(part)))
	if err != nil {
		return
	}
	list := []io.Reader{bytes.NewReader(pairs)}
	for band := range o.Bands {
		var b bytes.Buffer
		if _, err := Pairs(context.Background(), o, []*Part{p}, band, "", &b); err == nil {
			list = append(list, &b)
		}
	}
	_, _ = Verify(context.Background(), o, []*Part{p}, list[1:], func(Match) error { return nil })
	_, _ = Verify(context.Background(), o, []*Part{p}, list, func(Match) error { return nil })
}

// TestSimpleTextsAreComposed holds the short cut to the tables.
func TestSimpleTextsAreComposed(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		text := string(r)
		if simple(text) && (!norm.NFC.IsNormalString(text) || norm.NFC.PropertiesString(text).CCC() != 0) {
			t.Errorf("%U is not simple", r)
		}
		if props := norm.NFC.PropertiesString(text); simple(text) && !props.BoundaryBefore() {
			t.Errorf("%U composes with what comes before it", r)
		}
	}
	if simple("e\u0301") || simple("\xff") || !simple("où 中文，한국 да ω “x”") {
		t.Error("what is simple has changed")
	}
}
