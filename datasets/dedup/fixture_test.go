package dedup

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// A family of prompts of the fixture, and how many of it may stay.
type family struct {
	name      string
	domain    string
	texts     []string
	survivors int // of a search for near-duplicates from similarity 0.9
	exact     int // of a search for exact duplicates
}

// instructions are a text that is the same in many prompts.
const instructions = `You are a careful assistant that plans journeys for the customers of a small travel agency. ` +
	`Read the whole request before you answer it. If something that you need is missing from the request, ask for it and wait. ` +
	`Otherwise call exactly one of the functions that are declared below, with arguments that are valid against its schema, and say nothing else. ` +
	`Every function takes a JSON object. The function for the weather is called get_weather and takes a place and a unit. ` +
	`The function for trains is called find_train and takes two places and a day. The function for rooms is called book_room and takes a place, a day and a number of nights. ` +
	`Do not invent places, days or numbers that the customer did not give. Here is the call that the customer's request stands for. `

// fixture is what users of other tools lost, with what has to stay of it.
func fixture() []family {
	var fams []family
	random := rand.New(rand.NewPCG(1, 2))
	cities := []string{"Paris", "London", "Lima", "Oslo", "Quito", "Cairo", "Delhi", "Kyoto", "Turin", "Perth"}
	verbs := []string{"forecast", "trains", "rooms", "museums", "ferries", "taxis", "parks", "markets", "theatres", "cafés"}
	streets := []string{"Abbey", "Baker", "Castle", "Duke", "Elm", "Fleet", "Grove", "High", "Inner", "Jubilee"}

	calls := family{name: "1,000 tool calls that differ in their arguments", survivors: 1000, exact: 1000}
	for i := range 1000 {
		a, b, c := cities[i%10], verbs[i/10%10], streets[i/100]
		switch i % 4 {
		case 0: // JSON
			calls.texts = append(calls.texts, instructions+fmt.Sprintf(`{"name": "search", "arguments": {"place": "%s", "topic": "%s", "street": "%s"}}`, a, b, strings.ToLower(c)))
		case 1: // Python
			calls.texts = append(calls.texts, instructions+fmt.Sprintf(`search(place='%s', topic='%s', street='%s')`, strings.ToLower(a), b, strings.ToLower(c)))
		case 2: // a command line
			calls.texts = append(calls.texts, instructions+fmt.Sprintf(`search --place=%s --topic=%s --street=%s`, strings.ToLower(a), b, strings.ToLower(c)))
		case 3: // words
			calls.texts = append(calls.texts, instructions+fmt.Sprintf("Look for `%s` in %s near %s Street, please.", b, a, c))
		}
	}
	fams = append(fams, calls)

	sums := family{name: "200 maths problems that differ in their numbers", domain: "maths", survivors: 200, exact: 200}
	words := []string{"two", "three", "four", "five", "six", "seven", "eight", "nine", "eleven", "twelve"}
	for i := range 200 {
		n, m := fmt.Sprint(3+i%20), fmt.Sprint(5+i/20)
		if i%2 == 1 {
			n, m = words[i/2%10], words[i/20%10]
		}
		sums.texts = append(sums.texts, fmt.Sprintf("A farmer keeps hens in a yard behind the house, and every morning before breakfast she walks out with a basket and collects the eggs that they have laid. "+
			"Each hen lays %s eggs a day. She uses some of them in the kitchen to bake for her family and for the neighbours who help with the harvest, and she sells the rest at the market in the village for a fair price. "+
			"She has been doing so for years, and her customers come back because the eggs are fresh and because she always has time to talk about the weather, the roads and the news of the day. "+
			"This week she keeps %s hens. How many eggs does she collect in the week? Give the number alone.", n, m))
	}
	fams = append(fams, sums)

	twins := family{name: "50 true near-duplicates", survivors: 50, exact: 100}
	vocabulary := strings.Fields("river stone garden window letter paper market morning evening silver copper winter summer planet forest harbour kitchen ladder mirror needle orange pepper rabbit saddle timber uncle valley wagon yellow basket candle dragon engine feather guitar hammer island jacket kettle lemon")
	for range 50 {
		text := make([]string, 0, 160)
		for range 150 {
			text = append(text, vocabulary[random.IntN(len(vocabulary))])
		}
		other := slices.Clone(text)
		switch k := 40 + random.IntN(60); len(twins.texts) / 2 % 4 {
		case 0:
			other[k] = "however"
		case 1:
			other = slices.Insert(other, k, "really")
		case 2:
			other = slices.Delete(other, k, k+1)
		case 3:
			other = append(other, "please", "answer", "briefly")
		}
		twins.texts = append(twins.texts, strings.Join(text, " "), strings.Join(other, " "))
	}
	fams = append(fams, twins)

	han := "请仔细阅读下面的文章，然后用自己的话总结作者的主要观点。文章讲述了一个小村庄里的老师如何用简单的方法教孩子们读书写字，以及村民们怎样齐心协力修建新的学校。" +
		"作者认为教育能够改变人们的命运，也能够让整个社会变得更加美好。请在总结中说明你是否同意作者的看法，并举出生活中的例子来支持你的观点。"
	fams = append(fams,
		family{name: "Chinese near-duplicates", texts: []string{han, strings.Replace(han, "简单", "朴素", 1), han + "谢谢"}, survivors: 1, exact: 3},
		family{name: "Chinese that differs in a number", texts: []string{han + "请写300字。", han + "请写500字。", han + "请写五百字。"}, survivors: 3, exact: 3},
		family{name: "Chinese that differs", texts: []string{"什么是光合作用？", "什么是呼吸作用？", "什么是化学作用？"}, survivors: 3, exact: 3},
		family{name: "Thai near-duplicates", texts: []string{strings.Repeat("ภาษาไทยเขียนโดยไม่เว้นวรรคระหว่างคำ", 2) + "กรุณาสรุปบทความนี้ให้สั้นที่สุดเท่าที่จะทำได้และยกตัวอย่างประกอบด้วย", strings.Repeat("ภาษาไทยเขียนโดยไม่เว้นวรรคระหว่างคำ", 2) + "กรุณาสรุปบทความนี้ให้สั้นที่สุดเท่าที่จะทำได้และยกตัวอย่างประกอบด้วยนะ"}, survivors: 1, exact: 2},
		family{name: "NFC and NFD", texts: []string{"Où est le café près de la forêt ?", norm.NFD.String("Où est le café près de la forêt ?")}, survivors: 1, exact: 1},
		// A text without words has no shingles: it is near to none.
		family{name: "empty texts", texts: []string{"", "", " \n\t", "\u200b"}, survivors: 4, exact: 1},
		family{name: "punctuation alone", texts: []string{"???", "!!!", "…", "..."}, survivors: 4, exact: 4},
		family{name: "signs and points", texts: []string{"What is -4 + 1?", "What is 4 + 1?", "What is 3.2 + 1?", "What is 32 + 1?", "What is 3,2 + 1?", "What is 5 - 3?", "What is 5 * 3?", "What is 5 / 3?"}, survivors: 8, exact: 8},
		family{name: "names of languages", texts: []string{"Write hello world in C.", "Write hello world in C#.", "Write hello world in C++."}, survivors: 3, exact: 3},
		family{name: "case and commas in prose", texts: []string{"Hello, how are you?", "hello how are you", "Hello — how are you!"}, survivors: 1, exact: 1},
		family{name: "case in code", domain: "code", texts: []string{"print(Foo.bar)", "print(foo.bar)", "print(foo, bar)", "print(foo[bar])"}, survivors: 4, exact: 4},
		family{name: "a negation", texts: []string{strings.ToLower(instructions) + "you may answer in prose", strings.ToLower(instructions) + "you may not answer in prose"}, survivors: 2, exact: 2},
	)
	return fams
}

// TestFixture holds what stays of texts that other tools merged.
func TestFixture(t *testing.T) {
	testdata.Heavy(t)
	all := struct {
		documents []Document
		survivors int
	}{}
	for _, f := range fixture() {
		t.Run(f.name, func(t *testing.T) {
			keys := map[Key]bool{}
			var documents []Document
			for _, text := range f.texts {
				d := PromptDocument(uint64(len(all.documents)), f.domain, prompt(text))
				all.documents = append(all.documents, d)
				documents = append(documents, d)
				keys[PromptKey(f.domain, prompt(text))] = true
			}
			all.survivors += f.survivors
			if len(keys) != f.exact {
				t.Errorf("%d texts are %d by their keys, want %d", len(f.texts), len(keys), f.exact)
			}
			found, _ := nearDuplicates(t, NearOptions{Jaccard: 0.9}, documents)
			if n := len(documents) - len(found); n != f.survivors {
				t.Errorf("of %d texts %d stay, want %d", len(documents), n, f.survivors)
			}
		})
	}
	t.Run("all together", func(t *testing.T) {
		for _, o := range []NearOptions{{Jaccard: 0.9}, {Jaccard: 0.9, Bands: 14, Rows: 8}} {
			found, stats := nearDuplicates(t, o, all.documents)
			if n := len(all.documents) - len(found); n != all.survivors {
				t.Errorf("%+v: of %d texts %d stay, want %d", o, len(all.documents), n, all.survivors)
			}
			// Of 1,341 texts there are 898,470 pairs; a thousand are one template.
			if stats.Proposed > 10_000 {
				t.Errorf("%d pairs were proposed: a template must make no crowd", stats.Proposed)
			}
		}
		// By similarity alone templates would be merged: the fixture is worth
		// something.
		found, _ := nearDuplicates(t, NearOptions{Jaccard: 0.9, AnyValues: true}, all.documents)
		if len(found) < 1000 {
			t.Errorf("similarity alone finds %d duplicates, want at least 1,000", len(found))
		}
	})
}

func prompt(text string) *chat.Prompt {
	return &chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: &text}}}
}
