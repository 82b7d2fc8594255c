package training

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseResult(t *testing.T) {
	id := digest("a")
	head := `{"apiVersion":"stillhouse/v1","launch_id":"` + id + `",`
	for _, tc := range []struct{ name, text, want string }{
		{"whole", head + `"state":"succeeded","exit_code":0,"rows_seen":3,"rows_from":"trainer","metrics":{"loss":0.5}}`, ""},
		{"newer", head + `"state":"failed","exit_code":1,"invented_later":{"x":[1]}}`, ""},
		{"empty", "", "EOF"},
		{"no object", "[]", "cannot unmarshal"},
		{"two objects", head + `"state":"failed"}{}`, "goes on after"},
		{"not UTF-8", "{\"\xff\":1}", "not UTF-8"},
		{"too large", head + `"state":"failed","x":"` + strings.Repeat("x", MaxResultBytes) + `"}`, "larger than"},
		{"another launch", strings.Replace(head, "aaaa", "bbbb", 1) + `"state":"failed"}`, "launch_id is"},
		{"another version", `{"apiVersion":"stillhouse/v2"}`, "apiVersion is"},
		{"no state", head + `"exit_code":0}`, "state is"},
		{"exit code out of range", head + `"state":"failed","exit_code":256}`, "outside 0 to 255"},
		{"exit code too large for us", head + `"state":"failed","exit_code":1e30}`, "cannot unmarshal"},
		{"success with an exit code", head + `"state":"succeeded","exit_code":1}`, "succeeded with exit_code 1"},
		{"negative rows", head + `"state":"succeeded","rows_seen":-1}`, "rows_seen is -1"},
		{"rows from nowhere", head + `"state":"succeeded","rows_seen":1,"rows_from":"hope"}`, "rows_from is"},
		{"metric that is no name", head + `"state":"failed","metrics":{"a\u001bb":1}}`, "is no name"},
		{"metric that is no number", head + `"state":"failed","metrics":{"loss":"NaN"}}`, "cannot unmarshal"},
		{"nested deep", strings.Repeat("[", 20000), "exceeded max depth"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := ParseResult([]byte(tc.text), id)
			if tc.want == "" {
				if err != nil || r == nil {
					t.Fatalf("got %v", err)
				}
				return
			}
			if !errors.Is(err, ErrNoResult) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want ErrNoResult with %q", err, tc.want)
			}
		})
	}
}

func TestParseResultCleansTexts(t *testing.T) {
	text, err := json.Marshal(Result{
		APIVersion: APIVersion, LaunchID: digest("a"), State: ResultFailed,
		Error: "\x1b[31mred\u202e" + strings.Repeat("é", maxText), RunURL: "https://tracker/\a1",
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseResult(text, digest("a"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "[31mred" + strings.Repeat("é", (maxText-7)/2); r.Error != want {
		t.Errorf("error is %d bytes %.20q, want %d", len(r.Error), r.Error, len(want))
	}
	if r.RunURL != "https://tracker/1" {
		t.Errorf("run URL is %q", r.RunURL)
	}
}

func FuzzParseResult(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"stillhouse/v1","launch_id":"` + digest("a") + `","state":"succeeded","rows_seen":3,"metrics":{"loss":0.5}}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseResult(data, digest("a"))
		if (r == nil) != (err != nil) || err != nil && !errors.Is(err, ErrNoResult) {
			t.Fatalf("%v, %v", r, err)
		}
		if r == nil {
			return
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatalf("a result that can't be written: %v", err)
		}
		// What was bounded and cleaned once stays as it is.
		again, err := ParseResult(text, digest("a"))
		if len(text) <= MaxResultBytes && (err != nil || again.Error != r.Error) {
			t.Fatalf("read again: %v", err)
		}
	})
}

func TestReadResult(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ResultFile)
	if _, err := ReadResult(path, digest("a")); !errors.Is(err, ErrNoResult) {
		t.Errorf("no file: %v", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadResult(path, digest("a")); !errors.Is(err, ErrNoResult) {
		t.Errorf("a folder: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	text := `{"apiVersion":"stillhouse/v1","launch_id":"` + digest("a") + `","state":"cancelled","exit_code":143}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := ReadResult(path, digest("a")); err != nil || r.State != ResultCancelled {
		t.Errorf("got %+v, %v", r, err)
	}
}
