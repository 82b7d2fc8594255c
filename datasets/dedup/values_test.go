package dedup

import "testing"

// TestValues says of texts that differ in one thing whether it is a value.
func TestValues(t *testing.T) {
	const before, after = "after the long winter we went to see what was left of the garden and ", " so that everybody who came by in the spring could see it from the road"
	for _, tc := range []struct {
		a, b   string
		domain string
		near   bool
	}{
		{"we planted a tree", "we planted a bush", "chat", true},
		{"we planted a tree", "we then planted a tree", "chat", true},
		{"We Planted A Tree", "we planted a tree", "chat", true},
		{"WE PLANTED A TREE", "we planted a tree", "chat", true},
		{"we planted, a tree!", "we planted a tree", "chat", true},
		{"it's a tree", "its a tree", "chat", true},
		{"it's a tree", "it is a tree", "math", true},
		{"we planted 3 trees", "we planted 4 trees", "chat", false},
		{"we planted 3. Trees", "we planted 3 trees", "chat", true},
		{"we planted (3) trees", "we planted 3 trees", "chat", true},
		{"we planted -3 trees", "we planted 3 trees", "chat", false},
		{"we planted 3.2 trees", "we planted 32 trees", "chat", false},
		{"we planted 3 and 4 trees", "we planted 4 and 3 trees", "chat", false},
		{"we planted three trees", "we planted four trees", "chat", false},
		{"we planted ½ of it", "we planted ¾ of it", "chat", false},
		{"we planted ３ trees", "we planted ４ trees", "chat", false},
		{"we planted trees", "we never planted trees", "chat", false},
		{"we do plant trees", "we don't plant trees", "chat", false},
		{"we saw Anna there", "we saw Maria there", "chat", false},
		{"we saw Anna there", "we saw anna there", "chat", true},
		{"we left. Then we came", "we left. Now we came", "chat", true},
		{"we wrote in C there", "we wrote in C# there", "chat", false},
		{"we called get_tree there", "we called get_bush there", "chat", false},
		{"we called getTree there", "we called getBush there", "chat", false},
		{"we paid $ there", "we paid € there", "chat", false},
		{"we had x + y there", "we had x - y there", "math", false},
		{"we had x there", "we had y there", "math", false},
		{"we had a[i] there", "we had a[j] there", "code", false},
		{"we had a(i) there", "we had a[i] there", "code", false},
		{"we had os.path there", "we had os.name there", "code", false},
		{`we said "red tree" there`, `we said "old tree" there`, "chat", false},
		{"we said “red tree” there", "we said “old tree” there", "chat", false},
		{"we said `red` there", "we said `old` there", "chat", false},
		{"we said 'red' there", "we said 'old' there", "chat", false},
		{"we saw dogs' red tails, cats' too", "we saw dogs' old tails, cats' too", "chat", true},
		{"we were glad 😊 there", "we were glad there", "chat", true},
		{"| we | had | it |", "we had it", "chat", true},
	} {
		o := NearOptions{Jaccard: 0.3}.WithDefaults()
		x := newExtractor(o)
		look := func(o *NearOptions, s string) features {
			x.values = !o.AnyValues
			d := PromptDocument(0, tc.domain, prompt(before+s+after))
			return cloned(x.features(&d))
		}
		a, b := look(&o, tc.a), look(&o, tc.b)
		if j, near := alike(&o, &a, &b); near != tc.near {
			t.Errorf("%s: %q and %q: near-duplicates %v (%.2f), want %v", tc.domain, tc.a, tc.b, near, j, tc.near)
		}
		o.AnyValues = true
		a, b = look(&o, tc.a), look(&o, tc.b)
		if j, near := alike(&o, &a, &b); !near {
			t.Errorf("%q and %q are no near-duplicates by similarity alone (%.2f)", tc.a, tc.b, j)
		}
	}
}
