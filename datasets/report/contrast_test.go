package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// luminance and contrast are as WCAG 2.2 defines them.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	hex := strings.TrimPrefix(colour, "#")
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	var sum float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatalf("colour %q: %v", colour, err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func contrast(t *testing.T, a, b string) float64 {
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// mixed is so much of one colour in another, as color-mix does it in sRGB.
func mixed(t *testing.T, a, b string, share float64) string {
	t.Helper()
	out := "#"
	for i := 1; i < 7; i += 2 {
		x, errX := strconv.ParseUint(a[i:i+2], 16, 8)
		y, errY := strconv.ParseUint(b[i:i+2], 16, 8)
		if errX != nil || errY != nil {
			t.Fatalf("mix %q and %q", a, b)
		}
		out += fmt.Sprintf("%02x", int(math.Round(share*float64(x)+(1-share)*float64(y))))
	}
	return out
}

var (
	rootRule  = regexp.MustCompile(`:root \{([^}]*)\}`)
	variable  = regexp.MustCompile(`--([a-z]+): (#[0-9a-f]+)`)
	mixedRule = regexp.MustCompile(`td\.(ahead|behind) \{ background: color-mix\(in srgb, (#[0-9a-f]{6}) (\d+)%, var\(--paper\)\)`)
)

// TestContrast holds every pair of colours that the pages use, light, dark and
// printed, to level AA: 4.5 for text, 3 for what a chart is read by.
func TestContrast(t *testing.T) {
	roots := rootRule.FindAllStringSubmatch(pageStyle, -1)
	if len(roots) != 3 {
		t.Fatalf("%d sets of colours, want light, dark and printed", len(roots))
	}
	mixes := mixedRule.FindAllStringSubmatch(pageStyle, -1)
	if len(mixes) != 2 {
		t.Fatalf("%d coloured cells, want two", len(mixes))
	}
	for i, scheme := range []string{"light", "dark", "printed"} {
		colours := map[string]string{}
		for _, v := range variable.FindAllStringSubmatch(roots[i][1], -1) {
			colours[v[1]] = v[2]
		}
		hold := func(what, a, b string, least float64) {
			t.Helper()
			if a == "" || b == "" {
				t.Errorf("%s: %s has no colour", scheme, what)
			} else if c := contrast(t, a, b); c < least {
				t.Errorf("%s: %s has a contrast of %.2f, and %.1f are wanted", scheme, what, c, least)
			}
		}
		paper := colours["paper"]
		hold("text", colours["ink"], paper, 4.5)
		hold("soft text", colours["soft"], paper, 4.5)
		hold("a link", colours["bar"], paper, 4.5)
		hold("an interval", colours["range"], paper, 3)
		hold("a dot on its interval", colours["bar"], colours["range"], 2.5) // and it has a rim of the paper's colour
		if len(paper) == 7 {
			for _, m := range mixes {
				share, err := strconv.ParseFloat(m[3], 64)
				if err != nil {
					t.Fatal(err)
				}
				hold("text of a lead", colours["ink"], mixed(t, m[2], paper, share/100), 4.5)
			}
		}
	}
	// The measure itself: black on white is 21, and grey of #767676 the known 4.54.
	if c := contrast(t, "#000", "#ffffff"); math.Abs(c-21) > 1e-9 {
		t.Errorf("black on white is %g", c)
	}
	if c := contrast(t, "#767676", "#ffffff"); math.Abs(c-4.54) > 0.005 {
		t.Errorf("#767676 on white is %g", c)
	}
}
