package teachers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestRowsOfResults(t *testing.T) {
	const answer = `{"object":"chat.completion","choices":[]}`
	for _, test := range []struct {
		form batchForm
		line string
		want string // custom id, status, class or body
	}{
		{openAIBatch{}, `{"custom_id":"a","response":{"status_code":200,"request_id":"r","body":` + answer + `},"error":null}`, "a 200 " + answer},
		{openAIBatch{}, `{"custom_id":"a","response":{"body":` + answer + `}}`, "a 0 " + answer},
		{openAIBatch{}, `{"custom_id":"a","response":{"status_code":429,"body":{"error":{"message":"slow"}}}}`, "a 429 rate_limited"},
		{openAIBatch{}, `{"custom_id":"a","response":null,"error":{"code":"batch_expired","message":"late"}}`, "a 0 expired"},
		{openAIBatch{}, `{"custom_id":"a","response":null,"error":{"code":"batch_cancelled","message":"stopped"}}`, "a 0 cancelled"},
		{openAIBatch{}, `{"custom_id":"a","response":{"status_code":400,"body":null},"error":{"object":"error","message":"This model's maximum context length is 8","code":400}}`, "a 400 context_overflow"},
		{openAIBatch{}, `{"custom_id":"a","response":{"status_code":402,"body":{"error":{"message":"credit balance too low"}}}}`, "a 402 quota"},
		{openAIBatch{}, `{"custom_id":"a","response":{"status_code":200,"body":"text"}}`, "a 200 malformed"},
		{openAIBatch{}, `{"custom_id":"a"}`, "a 0 malformed"},
		{openAIBatch{}, `{"custom_id":7,"response":{"status_code":1e9,"body":{}}}`, " 0 {}"},
		{openAIBatch{}, `{"custom_id":"\ud800x","response":{"body":{}}}`, "\uFFFDx 0 {}"},
		{openAIBatch{}, `[1]`, " 0 malformed"},
		{openAIBatch{}, `{"custom_id":"a"} trailing`, " 0 malformed"},
		{openAIBatch{}, "\x00\xff", " 0 malformed"},
		{anthropicBatch{}, `{"custom_id":"b","result":{"type":"succeeded","message":{"type":"message"}}}`, `b 200 {"type":"message"}`},
		{anthropicBatch{}, `{"custom_id":"b","result":{"type":"errored","error":{"type":"error","error":{"type":"invalid_request_error","message":"no"}}}}`, "b 400 bad_request"},
		{anthropicBatch{}, `{"custom_id":"b","result":{"type":"errored","error":{"error":{"message":"busy","type":"overloaded_error"},"type":"error"}}}`, "b 529 overloaded"},
		{anthropicBatch{}, `{"custom_id":"b","result":{"type":"errored","error":{"type":"error","error":{"type":"new_error","message":"?"}}}}`, "b 0 server"},
		{anthropicBatch{}, `{"custom_id":"b","result":{"type":"errored"}}`, "b 0 server"},
		{anthropicBatch{}, `{"custom_id":"b","result":{"type":"expired"}}`, "b 0 expired"},
		{anthropicBatch{}, `{"custom_id":"b","result":{"type":"canceled"}}`, "b 0 cancelled"},
		{anthropicBatch{}, `{"custom_id":"b","result":{"type":"succeeded"}}`, "b 0 malformed"},
		{anthropicBatch{}, `{"custom_id":"b"}`, "b 0 malformed"},
	} {
		var got []string
		err := readBatch(test.form, "f", strings.NewReader("\n"+test.line+"\r\n\n"), 1<<20, func(row *BatchRow) error {
			what := string(row.Body)
			if row.Failure != nil {
				what = row.Failure.Class
			}
			got = append(got, fmt.Sprintf("%s %d %s", row.CustomID, row.Status, what))
			return nil
		})
		if err != nil || len(got) != 1 || got[0] != test.want {
			t.Errorf("%s\n got %q %v\nwant %q", test.line, got, err, test.want)
		}
	}
}

func TestLongAndCutRows(t *testing.T) {
	row := func(id, body string) string {
		return `{"custom_id":"` + id + `","response":{"status_code":200,"body":{"x":"` + body + `"}}}`
	}
	file := row("a", "1") + "\n" + row("b", strings.Repeat("2", 1000)) + "\n" + row("c", "3") + "\n" + row("d", "4")[:40]
	for _, r := range []io.Reader{strings.NewReader(file), iotest.OneByteReader(strings.NewReader(file))} {
		var got []string
		err := readBatch(openAIBatch{}, "f", r, 200, func(row *BatchRow) error {
			class := ""
			if row.Failure != nil {
				class = row.Failure.Class
			}
			got = append(got, row.CustomID+class)
			return nil
		})
		if want := "a b" + ClassTooLarge + " c"; strings.Join(got, " ") != want || !errors.Is(err, ErrCutLine) {
			t.Errorf("%q %v, want %q and a cut line", got, err, want)
		}
	}
	// A last line without its end is a row all the same, if it is whole.
	n := 0
	if err := readBatch(openAIBatch{}, "f", strings.NewReader(row("a", "1")), 200, func(*BatchRow) error { n++; return nil }); err != nil || n != 1 {
		t.Errorf("%d %v", n, err)
	}
	broken := io.MultiReader(strings.NewReader(row("a", "1")+"\n"), iotest.ErrReader(errors.New("the disk")))
	if err := readBatch(openAIBatch{}, "f", broken, 200, func(*BatchRow) error { return nil }); err == nil || errors.Is(err, ErrCutLine) {
		t.Errorf("%v", err)
	}
}

func TestUnstreamed(t *testing.T) {
	for in, want := range map[string]string{
		`{"max_tokens":5,"stream":true,"stream_options":{"include_usage":true},"user":"x","messages":[{"stream":1}],"model":"m"}`: `{"max_tokens":5,"user":"x","messages":[{"stream":1}],"model":"m"}`,
		`{"stream":true,"model":"m"}`: `{"model":"m"}`,
		`{"a\"b":1,"stream":false}`:   `{"a\"b":1}`,
	} {
		if got := string(unstreamed([]byte(in))); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}

func TestWindows(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "24h", 12 * time.Hour: "12h", 24 * time.Hour: "24h", 7 * 24 * time.Hour: "7d", 36 * time.Hour: "36h", time.Minute: "1h"} {
		if got := window(d); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
}

func TestLinesBecomeElements(t *testing.T) {
	for _, lines := range []string{"1\n", "1\n2\n3\n", strings.Repeat("{\"x\":1}\n", 10_000)} {
		for _, r := range []io.Reader{strings.NewReader(lines), iotest.OneByteReader(strings.NewReader(lines)), iotest.DataErrReader(strings.NewReader(lines))} {
			got, err := io.ReadAll(&commaReader{r: bufio.NewReaderSize(r, 16)})
			want := strings.TrimSuffix(strings.ReplaceAll(lines, "\n", ","), ",")
			if err != nil || string(got) != want {
				t.Fatalf("%d bytes and %v of %d lines, want %d bytes", len(got), err, strings.Count(lines, "\n"), len(want))
			}
		}
	}
}

// FuzzBatchResults reads files of results that nobody vouches for: no panic, no
// row beyond its bound, and every line of it accounted for in order.
func FuzzBatchResults(f *testing.F) {
	for _, seed := range []string{
		`{"custom_id":"a","response":{"status_code":200,"request_id":"r","body":{"choices":[]}},"error":null}` + "\n",
		`{"custom_id":"b","result":{"type":"errored","error":{"type":"error","error":{"type":"api_error","message":"no"}}}}`,
		"{}\n\n[]\n\"x\n", `{"custom_id":"a","response":{"status_code":-1,"body":{"a":NaN}}}`, "\xff\xfe{", strings.Repeat("[", 2000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 256
		for _, form := range []batchForm{openAIBatch{}, anthropicBatch{}} {
			last := 0
			err := readBatch(form, FormatOpenAIJSON, bytes.NewReader(data), most, func(row *BatchRow) error {
				if row.Line <= last || len(row.Raw) > most {
					t.Fatalf("line %d after %d, %d bytes", row.Line, last, len(row.Raw))
				}
				last = row.Line
				if (row.Failure == nil) != (row.Body != nil) {
					t.Fatalf("%q is both an answer and a failure, or neither", row.Raw)
				}
				if row.Body != nil {
					if !bytes.Contains(row.Raw, row.Body) {
						t.Fatalf("the body %q is not the row's", row.Body)
					}
					_, _ = Parse(row.Format, row.Body) // must not panic
				}
				return nil
			})
			if err != nil && !errors.Is(err, ErrCutLine) {
				t.Fatal(err)
			}
			if last > bytes.Count(data, []byte{'\n'})+1 {
				t.Fatalf("line %d of %d", last, bytes.Count(data, []byte{'\n'})+1)
			}
		}
	})
}
