package catalog_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func put(t testing.TB, b objstore.Bucket, key string, data []byte) {
	t.Helper()
	if _, err := objstore.PutBytes(t.Context(), b, key, data, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, b objstore.Bucket, key string) []byte {
	t.Helper()
	data, _, err := objstore.ReadAll(t.Context(), b, key, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(data)
}

// damages are what happens to a file in a store.
var damages = map[string]func(t *testing.T, b *mem.Bucket, key string){
	"a flipped byte": func(t *testing.T, b *mem.Bucket, key string) {
		data := get(t, b, key)
		data[len(data)/2] ^= 1
		put(t, b, key, data)
	},
	"cut short": func(t *testing.T, b *mem.Bucket, key string) {
		data := get(t, b, key)
		put(t, b, key, data[:len(data)-100])
	},
	"a tail": func(t *testing.T, b *mem.Bucket, key string) {
		put(t, b, key, append(get(t, b, key), 0))
	},
	"gone": func(t *testing.T, b *mem.Bucket, key string) {
		if err := b.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	},
	"another whole file": func(t *testing.T, b *mem.Bucket, key string) {
		path := file(t, rows(900, 5))
		if _, err := objstore.PutFile(t.Context(), b, key, path, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	},
}

func TestVerifyFindsNothingWhereNothingIs(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	publish(t, c, "maths", "b1")
	publish(t, c, "maths", "b2")
	var seen []catalog.Progress
	r, err := c.Verify(t.Context(), "maths", func(p catalog.Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || r.Files != 3 || r.Rows != 16 || r.Ref != "maths@2" {
		t.Errorf("%+v", r)
	}
	if len(seen) != 3 || seen[2].File != 3 || seen[2].Bytes >= seen[2].Total {
		t.Errorf("progress %+v", seen)
	}
}

// The teachers of pairs are those of both sides.
func TestVerifyCountsTheTeachersOfPairs(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	m := draft(t, c, "maths", "b1")
	pairs := file(t, []datasets.Pair{{TaskID: "t1", ChosenTeacher: "k3", RejectedTeacher: "r1"}, {TaskID: "t2", ChosenTeacher: "k3", RejectedTeacher: "k3"}})
	ref, err := c.Stage(t.Context(), "maths", "b1", "pairs", "train", 0, pairs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"k3": 3, "r1": 1}, ref.Teachers); diff != "" {
		t.Error(diff)
	}
	m.Files = append(m.Files, ref)
	if _, err := c.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r, err := c.Verify(t.Context(), "maths", nil)
	if err != nil || len(r.Problems) > 0 {
		t.Errorf("%v, %v", r, err)
	}
}

func TestVerifyNamesTheDamagedFile(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			b := mem.New("b")
			c := catalog.Open(b)
			publish(t, c, "maths", "b1")
			_, m, err := c.Latest(t.Context(), "maths")
			if err != nil {
				t.Fatal(err)
			}
			damage(t, b, m.Files[1].Key)
			mustFind(t, c, "maths", m.Files[1].Key, "")
		})
	}
}

func mustFind(t *testing.T, c *catalog.Catalog, ref, key, what string) {
	t.Helper()
	r, err := c.Verify(t.Context(), ref, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) == 0 {
		t.Fatal("nothing was found")
	}
	for _, p := range r.Problems {
		if p.Key != key || !strings.Contains(p.What, what) || p.Next == "" {
			t.Errorf("found %+v, want %s and %q", p, key, what)
		}
	}
}

// A file may be whole and still not be what the manifest says; the manifest is
// signed by its version, so this is a manifest that was published wrong.
func TestVerifyDerivesWhatTheManifestSays(t *testing.T) {
	for what, lie := range map[string]func(*catalog.Manifest){
		"holds 5 rows":         func(m *catalog.Manifest) { m.Files[1].Rows = 6 },
		"has the columns":      func(m *catalog.Manifest) { m.Files[1].Table, m.Files[1].Fingerprint = "extra", "0123" },
		"the rows by teacher":  func(m *catalog.Manifest) { m.Files[1].Teachers = map[string]int64{"k3": 5} },
		"are not those that w": func(m *catalog.Manifest) { m.Files[1].SHA256 = strings.Repeat("0", 64) },
	} {
		t.Run(what, func(t *testing.T) {
			c := catalog.Open(mem.New("b"))
			m := draft(t, c, "maths", "b1")
			lie(&m)
			if _, err := c.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			mustFind(t, c, "maths", m.Files[1].Key, what)
		})
	}
}

func TestVerifyFindsAChangedManifest(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, b *mem.Bucket, v catalog.Version){
		"edited": func(t *testing.T, b *mem.Bucket, v catalog.Version) {
			put(t, b, v.Manifest, bytes.Replace(get(t, b, v.Manifest), []byte(`"rows": 5`), []byte(`"rows": 4`), 1))
		},
		"gone": func(t *testing.T, b *mem.Bucket, v catalog.Version) {
			if err := b.Delete(t.Context(), v.Manifest); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := mem.New("b")
			c := catalog.Open(b)
			v := publish(t, c, "maths", "b1")
			damage(t, b, v)
			mustFind(t, c, "maths", v.Manifest, "manifest")
			if _, _, err := c.Latest(t.Context(), "maths"); err == nil {
				t.Error("a reader trusts the manifest")
			}
		})
	}
}

func TestVerifyFindsABrokenChain(t *testing.T) {
	const first = "datasets/maths/versions/00000000000000000001.json"
	for name, damage := range map[string]func(t *testing.T, b *mem.Bucket){
		"gone": func(t *testing.T, b *mem.Bucket) {
			if err := b.Delete(t.Context(), first); err != nil {
				t.Fatal(err)
			}
		},
		"not JSON": func(t *testing.T, b *mem.Bucket) { put(t, b, first, []byte("{")) },
		"a manifest elsewhere": func(t *testing.T, b *mem.Bucket) {
			put(t, b, first, bytes.Replace(get(t, b, first), []byte("datasets/maths/manifests"), []byte("datasets/other/manifests"), 1))
		},
		"another's": func(t *testing.T, b *mem.Bucket) {
			put(t, b, first, bytes.Replace(get(t, b, first), []byte(`"version": 1`), []byte(`"version": 2`), 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := mem.New("b")
			c := catalog.Open(b)
			publish(t, c, "maths", "b1")
			publish(t, c, "maths", "b2")
			damage(t, b)
			mustFind(t, c, "maths@2", first, "")
		})
	}
}

func TestAWrongHintIsNoTruth(t *testing.T) {
	const key = "datasets/maths/refs/latest.json"
	for name, hint := range map[string]string{"beyond": `{"version":9}`, "behind": `{"version":1}`, "garbage": `{`, "zero": `{}`, "negative": `{"version":-1}`} {
		t.Run(name, func(t *testing.T) {
			b := mem.New("b")
			c := catalog.Open(b)
			for _, build := range []string{"b1", "b2", "b3"} {
				publish(t, c, "maths", build)
			}
			put(t, b, key, []byte(hint))
			v, _, err := c.Latest(t.Context(), "maths")
			if err != nil || v.Number != 3 {
				t.Errorf("latest is %d, %v", v.Number, err)
			}
			if next := publish(t, c, "maths", "b4"); next.Number != 4 {
				t.Errorf("the next is %d", next.Number)
			}
		})
	}
}

// Manifests that name what is not their dataset's data are not followed.
func TestAManifestNamesItsOwnDataAlone(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	publish(t, c, "other", "b1")
	_, other, err := c.Latest(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{other.Files[0].Key, "answers/x", "datasets/maths/data/../../other", ""} {
		m := draft(t, c, "maths", "b1")
		m.Files[0].Key = key
		if _, err := c.Publish(t.Context(), m); err == nil {
			t.Errorf("a manifest that names %q was published", key)
		}
	}
	var names []string
	for attr, err := range b.List(t.Context(), "datasets/maths/versions/", "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, attr.Key)
	}
	if len(names) > 0 {
		t.Errorf("versions %v", names)
	}
}

func TestNewerFormatsAreNotGuessedAt(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	v := publish(t, c, "maths", "b1")
	v.FormatVersion = catalog.FormatVersion + 1
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	put(t, b, "datasets/maths/versions/00000000000000000001.json", data)
	if _, _, err := c.Resolve(t.Context(), "maths@1"); err == nil || !strings.Contains(err.Error(), "update") {
		t.Errorf("got %v, want the advice to update", err)
	}
}
