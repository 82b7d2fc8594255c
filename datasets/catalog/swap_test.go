package catalog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// What names one thing and holds another is named by verify, and no reader
// takes it for what it says it is.
func TestSwappedObjects(t *testing.T) {
	const first, second = "datasets/maths/versions/00000000000000000001.json", "datasets/maths/versions/00000000000000000002.json"
	for name, tc := range map[string]struct {
		swap func(t *testing.T, b *mem.Bucket, v1, v2 catalog.Version)
		ref  string
		key  func(v1, v2 catalog.Version) string // that verify names
		read error                               // of a reader of ref
	}{
		"a manifest that holds another's": {
			swap: func(t *testing.T, b *mem.Bucket, v1, v2 catalog.Version) {
				put(t, b, v2.Manifest, get(t, b, v1.Manifest))
			},
			ref: "maths@2", key: func(_, v2 catalog.Version) string { return v2.Manifest }, read: catalog.ErrDamaged,
		},
		"a version that names another's manifest": {
			swap: func(t *testing.T, b *mem.Bucket, v1, v2 catalog.Version) {
				v2.Manifest, v2.ManifestSHA256, v2.BuildID = v1.Manifest, v1.ManifestSHA256, v1.BuildID
				put(t, b, second, encoded(t, v2))
			},
			ref: "maths@2", key: func(v1, _ catalog.Version) string { return v1.Manifest }, read: catalog.ErrDamaged,
		},
		"a version that names another's manifest as its own": {
			swap: func(t *testing.T, b *mem.Bucket, v1, v2 catalog.Version) {
				v2.Manifest, v2.ManifestSHA256 = v1.Manifest, v1.ManifestSHA256
				put(t, b, second, encoded(t, v2))
			},
			ref: "maths@2", key: func(_, _ catalog.Version) string { return second }, read: catalog.ErrDamaged,
		},
		"two version records that changed places": {
			swap: func(t *testing.T, b *mem.Bucket, _, _ catalog.Version) {
				one, two := get(t, b, first), get(t, b, second)
				put(t, b, first, two)
				put(t, b, second, one)
			},
			ref: "maths@2", key: func(_, _ catalog.Version) string { return second }, read: catalog.ErrDamaged,
		},
		"a version that is the one before, with its number": {
			swap: func(t *testing.T, b *mem.Bucket, v1, _ catalog.Version) {
				v1.Number, v1.Parent = 2, 1
				put(t, b, second, encoded(t, v1))
			},
			ref: "maths@2", key: func(v1, _ catalog.Version) string { return v1.Manifest }, read: catalog.ErrDamaged,
		},
		"a report that is gone": {
			swap: func(t *testing.T, b *mem.Bucket, _, v2 catalog.Version) {
				damages["gone"](t, b, "datasets/maths/reports/b2/report.json")
			},
			ref: "maths@2", key: func(_, _ catalog.Version) string { return "datasets/maths/reports/b2/report.json" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := mem.New("b")
			c := catalog.Open(b)
			var versions []catalog.Version
			for _, build := range []string{"b1", "b2"} {
				m := draft(t, c, "maths", build)
				m.Reports = []string{"datasets/maths/reports/" + build + "/report.json"}
				put(t, b, m.Reports[0], []byte("{}"))
				v, err := c.Publish(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				versions = append(versions, v)
			}
			tc.swap(t, b, versions[0], versions[1])
			rows, err := 0, error(nil)
			_, m, err := c.Resolve(t.Context(), tc.ref)
			if err == nil {
				for _, rowErr := range catalog.ReadTable[datasets.Row](t.Context(), c, m, "train") {
					if err = rowErr; err != nil {
						break
					}
					rows++
				}
			}
			if !errors.Is(err, tc.read) || tc.read == nil && rows != 15 {
				t.Errorf("a reader got %d rows and %v", rows, err)
			}
			want := tc.key(versions[0], versions[1])
			r, err := c.Verify(t.Context(), tc.ref, nil)
			if err != nil {
				// The record itself can't be trusted, so its error names it.
				if !errors.Is(err, catalog.ErrDamaged) || !bytes.Contains([]byte(err.Error()), []byte(want)) {
					t.Errorf("verify: %v, want %s", err, want)
				}
				return
			}
			if !slices.ContainsFunc(r.Problems, func(p catalog.Problem) bool { return p.Key == want }) {
				t.Errorf("verify found %+v, want %s", r.Problems, want)
			}
		})
	}
}

// Two versions of one build: the second was written by hand.
func TestVerifyFindsAVersionThatIsThereTwice(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	publish(t, c, "maths", "b1")
	v2 := publish(t, c, "maths", "b2")
	v3 := publish(t, c, "maths", "b3")
	v3.BuildID, v3.Manifest, v3.ManifestSHA256 = v2.BuildID, v2.Manifest, v2.ManifestSHA256
	const key = "datasets/maths/versions/00000000000000000003.json"
	put(t, b, key, encoded(t, v3))
	r, err := c.Verify(t.Context(), "maths@3", nil)
	if err != nil || !slices.ContainsFunc(r.Problems, func(p catalog.Problem) bool { return p.Key == key }) {
		t.Errorf("%+v, %v", r, err)
	}
}

func encoded(t *testing.T, v catalog.Version) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
