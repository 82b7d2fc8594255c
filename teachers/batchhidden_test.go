package teachers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers"
)

const batchKey = "sk-batch-0123456789abcdef" // of batchOrder

// Rows of results are cleaned as answers are that come online: also of a key in
// pieces, and in what stands beside the answer.
func TestRowsOfResultsHoldNoKey(t *testing.T) {
	client, _ := batchOrder(t, teachers.APIOpenAIBatch, "https://endpoint.invalid/v1", 0)
	row := func(id, request, message, more string) string {
		return fmt.Sprintf(`{"custom_id":%q,"response":{"status_code":200,"request_id":%q,"body":{"object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",%s},"finish_reason":"stop"%s}]}}}`,
			id, request, message, more)
	}
	half := len(batchKey) / 2
	for name, c := range map[string]struct {
		line  string
		class string // of the failure; "" for an answer
	}{
		"whole":           {row("a", "r", `"content":"it is `+batchKey+`"`, ""), ""},
		"escaped":         {row("a", "r", `"content":"it is \u0073`+batchKey[1:]+`"`, ""), ""},
		"token by token":  {row("a", "r", `"content":"`+batchKey+`"`, `,"logprobs":{"content":[{"token":"`+batchKey[:half]+`","logprob":-1,"top_logprobs":[]},{"token":"`+batchKey[half:]+`","logprob":-1,"top_logprobs":[]}]}`), ""},
		"in two parts":    {row("a", "r", `"content":[{"type":"text","text":"`+batchKey[:half]+`"},{"type":"text","text":"`+batchKey[half:]+`"}]`, ""), teachers.ClassMalformed},
		"as the request":  {row("a", batchKey, `"content":"x"`, ""), ""},
		"as the id":       {row(batchKey, "r", `"content":"x"`, ""), ""},
		"as a whole line": {`{"custom_id":"a","response":{"status_code":500,"body":{"error":{"message":"` + batchKey + `"}}}}`, teachers.ClassServer},
	} {
		t.Run(name, func(t *testing.T) {
			rows := 0
			err := client.Read(strings.NewReader(c.line+"\n"), func(r *teachers.BatchRow) error {
				rows++
				all := r.CustomID + "\n" + r.RequestID + "\n" + string(r.Body) + "\n" + string(r.Raw)
				if r.Failure != nil {
					all += "\n" + r.Failure.Error()
				}
				for _, part := range []string{batchKey, batchKey[:half], batchKey[half:]} {
					if strings.Contains(all, part) {
						t.Errorf("%q is in %s", part, all)
					}
				}
				if class := failureClass(r.Failure); class != c.class {
					t.Errorf("class %q, want %q", class, c.class)
				}
				return nil
			})
			if err != nil || rows != 1 {
				t.Errorf("%d rows, %v", rows, err)
			}
		})
	}
}

func failureClass(e *teachers.Error) string {
	if e == nil {
		return ""
	}
	return e.Class
}

// What an endpoint calls a batch is kept with every row, logged and shown: it is
// short, printable and no key, or the batch is not taken.
func TestIDsOfBatchesAreBounded(t *testing.T) {
	for name, id := range map[string]string{
		"long":             strings.Repeat("b", 2<<20),
		"control":          "b\x1b]0;x\x07",
		"lines":            "b\nlevel=ERROR",
		"a key":            batchKey,
		"part of it a key": "batch_" + batchKey,
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/files"):
					fmt.Fprintf(w, `{"id":%s}`, asJSON(id))
				case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/batches"):
					fmt.Fprintf(w, `{"data":[{"id":%s,"status":"in_progress","metadata":{"stillhouse":"%s"}}]}`, asJSON(id), strings.Repeat("ab", 16))
				default:
					fmt.Fprintf(w, `{"id":"ok","status":"completed","output_file_id":%s}`, asJSON(id))
				}
			}))
			defer s.Close()
			client, order := batchOrder(t, teachers.APIOpenAIBatch, s.URL+"/v1", 1)
			ctx := context.Background()
			_, upload := client.Upload(ctx, order)
			_, create := client.Create(ctx, order)
			_, _, find := client.Find(ctx, order, time.Time{})
			_, status := client.Status(ctx, "ok")
			for step, err := range map[string]error{"upload": upload, "create": create, "find": find, "status": status} {
				if err == nil || teachers.Refused(err) || strings.Contains(err.Error(), batchKey) || len(err.Error()) > 4096 || strings.ContainsAny(err.Error(), "\x1b\n") {
					t.Errorf("%s: %v", step, err)
				}
			}
		})
	}
}

// The endpoint's word for a state is shown while a batch runs.
func TestWordsOfBatchesAreFitToBeShown(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"id":"ok","status":%s}`, asJSON("busy \x1b[2J "+batchKey+strings.Repeat(" x", 1<<20)))
	}))
	defer s.Close()
	client, _ := batchOrder(t, teachers.APIOpenAIBatch, s.URL+"/v1", 0)
	b, err := client.Status(context.Background(), "ok")
	if err != nil || strings.Contains(b.Word, batchKey) || strings.Contains(b.Word, "\x1b") || len(b.Word) > 2000 {
		t.Errorf("%.200q, %v", b.Word, err)
	}
}

func asJSON(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string is always JSON
	}
	return string(text)
}
