package teachers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updateParser = flag.Bool("update", false, "write golden files anew")

// TestParserVersion parses a collection of recorded and made-up responses, and
// holds what is read against the digest of this parser version. Where it
// fails, read the difference of what is read, raise ParserVersion, and write
// the digest anew with -update: datasets say by it which parser read them.
func TestParserVersion(t *testing.T) {
	dir := filepath.Join("testdata", "parser")
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recorded responses, %v", len(files), err)
	}
	slices.Sort(files)
	h := sha256.New()
	var readable strings.Builder
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		format, body, ok := strings.Cut(string(raw), "\n")
		if !ok {
			t.Fatalf("%s has no format in its first line", name)
		}
		answer, err := Parse(format, []byte(body))
		read, merr := json.Marshal(asRead(answer, err))
		if merr != nil {
			t.Fatal(merr)
		}
		readable.WriteString(filepath.Base(name) + " " + string(read) + "\n")
		h.Write(read)
	}
	got := ParserVersion + " " + hex.EncodeToString(h.Sum(nil)) + "\n"
	golden := filepath.Join(dir, "version")
	if *updateParser {
		if old, err := os.ReadFile(golden); err == nil && string(old) != got && strings.HasPrefix(string(old), ParserVersion+" ") {
			t.Fatalf("what is read has changed, and ParserVersion is still %s: raise it first", ParserVersion)
		}
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "read.golden"), []byte(readable.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("responses read differently now: version and digest are %q, were %q; git diff of read.golden after -update shows how", strings.TrimSpace(got), strings.TrimSpace(string(want)))
	}
}

// asRead is what counts of an answer, or of the lack of one: fields that are
// added later, and have nothing to say, change no digest.
func asRead(a *Answer, err error) map[string]any {
	var e *Error
	if errors.As(err, &e) {
		return map[string]any{"error": e.Class, "words": e.Excerpt}
	}
	out := map[string]any{
		"finish": a.Finish, "model": a.Model, "fingerprint": a.Fingerprint, "reasoning_field": a.ReasoningField, "refusal": a.Refusal,
		"role": a.Message.Role, "content": a.Message.Content, "reasoning": a.Message.ReasoningContent, "kind": a.Message.ReasoningKind,
	}
	if a.Usage != nil {
		out["usage"] = *a.Usage
	}
	if a.ArgsValid != nil {
		out["args_valid"] = *a.ArgsValid
	}
	if len(a.Message.ToolCalls) > 0 {
		out["tool_calls"] = a.Message.ToolCalls
	}
	if len(a.Flags) > 0 {
		out["flags"] = a.Flags
	}
	return out
}
