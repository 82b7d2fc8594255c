package activities

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// TestAnswersThatSayTheSame builds from the answers of two recorded teachers,
// two or three each: equal ones, one with a word more, one with another number.
func TestAnswersThatSayTheSame(t *testing.T) {
	long := strings.Repeat("first we count what there is and then we take away what is gone, ", 5)
	said := map[string][]string{
		"a": {long + "so the answer is 4", long + "and so the answer is 4", long + "so the answer is 5"},
		"b": {long + "so the  answer is 4 ", long + "the answer is 4"},
	}
	for _, tc := range []struct {
		merge    string
		rows     int
		clusters string // of a's answers and b's, by number
	}{
		{"merge: {policy: union}", 5, "a0 a1 a2 a0 b1"},
		{"merge: {policy: union, answer_duplicates: per_task}", 4, "a0 a1 a2 a0 b1"},
		{"merge: {policy: union, near_duplicates: 0.5}", 3, "a0 a0 a2 a0 a0"},
		{"merge: {policy: union, answer_duplicates: per_task, near_duplicates: 0.5}", 2, "a0 a0 a2 a0 a0"},
	} {
		t.Run(tc.merge, func(t *testing.T) {
			w := newWorld(t)
			w.file("p.jsonl", `{"prompt": "7 - 3?"}`+"\n")
			for teacher, answers := range said {
				var b strings.Builder
				for _, s := range answers {
					text, err := json.Marshal(map[string]string{"q": "7 - 3?", "a": s})
					if err != nil {
						t.Fatal(err)
					}
					b.Write(append(text, '\n'))
				}
				w.file(teacher+".jsonl", b.String())
			}
			w.build("name: same\nprompts: [{path: p.jsonl}]\nteachers:\n" +
				"  - {id: a, api: recorded, path: a.jsonl, fields: {prompt: q, content: a}}\n" +
				"  - {id: b, api: recorded, path: b.jsonl, fields: {prompt: q, content: a}}\n" +
				"ask: {route: all, samples: 3}\n" + tc.merge + "\n")
			names := map[string]string{}
			var clusters []string
			for _, teacher := range []string{"a", "b"} {
				for i, text := range said[teacher] {
					for _, c := range rows[datasets.Candidate](w, "same", datasets.TableCandidates) {
						if c.Teacher != teacher || c.Content() != text {
							continue
						}
						if c.AnswerCluster == nil {
							t.Fatalf("%s's answer %d has no cluster", teacher, i)
						}
						if names[*c.AnswerCluster] == "" {
							names[*c.AnswerCluster] = teacher + string(rune('0'+i))
						}
						clusters = append(clusters, names[*c.AnswerCluster])
					}
				}
			}
			if got := strings.Join(clusters, " "); got != tc.clusters {
				t.Errorf("the clusters are %s, want %s", got, tc.clusters)
			}
			if n := len(rows[datasets.Row](w, "same", datasets.TableTrain)); n != tc.rows {
				t.Errorf("%d rows, want %d", n, tc.rows)
			}
		})
	}
}
