package activities

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/secrets"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// A recipe that names a worker's key and an address of its own gets no key
// there, and an address that the worker may not ask gets no request.
func TestWhomAWorkerMayNotAskGetsNothing(t *testing.T) {
	const key = "sk-canary-0123456789"
	var sent []string
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		sent = append(sent, r.Header.Get("Authorization"))
		return teacherstest.Reply{Content: "x"}
	})
	ask := func(spec recipe.Teacher, mayAsk func(baseURL, key string) error) error {
		t.Helper()
		sent = nil
		ring := secrets.New(secrets.Options{Lookup: func(name string) (string, bool) { return key, name == "TEACHER_KEY" }})
		config := &teachers.Config{ID: "t", API: "openai", BaseURL: server.URL, Model: "m"}
		useKey(config, &spec, ring, mayAsk)
		client := teachers.NewClient(config)
		defer client.Close()
		builder, err := teachers.NewBuilder(config, nil)
		if err != nil {
			t.Fatal(err)
		}
		question := "q"
		request, err := builder.Request(&chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: &question}}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Ask(t.Context(), request)
		return err
	}
	keyed := recipe.Teacher{ID: "t", APIKeyEnv: "TEACHER_KEY"}
	refuse := errors.New("this worker does not ask it")
	for _, spec := range []recipe.Teacher{keyed, {ID: "t"}} {
		var asked []string
		err := ask(spec, func(baseURL, name string) error { asked = append(asked, baseURL, name); return refuse })
		var e *teachers.Error
		if !errors.As(err, &e) || e.Class != teachers.ClassAuth || !strings.Contains(err.Error(), refuse.Error()) || strings.Contains(err.Error(), key) || len(sent) != 0 {
			t.Errorf("%v; sent %q", err, sent)
		}
		if len(asked) != 2 || asked[0] != server.URL || asked[1] != spec.APIKeyEnv {
			t.Errorf("leave was asked for %q", asked)
		}
	}
	allow := func(string, string) error { return nil }
	if err := ask(keyed, allow); err != nil || len(sent) != 1 || sent[0] != "Bearer "+key {
		t.Errorf("%v; sent %q", err, sent)
	}
	if err := ask(recipe.Teacher{ID: "t"}, allow); err != nil || len(sent) != 1 || sent[0] != "" {
		t.Errorf("%v; sent %q", err, sent)
	}
}

// A build that asks anew carries the same keys under the same rules as any other,
// also as the first that a worker does.
func TestWhoIsAskedAnewIsAskedWithItsKey(t *testing.T) {
	const key = "sk-canary-0123456789"
	var sent atomic.Pointer[string]
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		auth := r.Header.Get("Authorization")
		sent.Store(&auth)
		return teacherstest.Reply{Content: "x"}
	})
	for _, refused := range []bool{false, true} {
		w := newWorld(t)
		w.a.Lookup = func(name string) (string, bool) { return key, name == "TEACHER_KEY" }
		if refused {
			w.a.MayAsk = func(string, string) error { return errors.New("this worker does not ask it") }
		}
		w.file("p.jsonl", sums(2))
		sent.Store(nil)
		run := w.refresh(askRecipe("a", server.URL, ", api_key_env: TEACHER_KEY"), "t").ask()
		switch got := sent.Load(); {
		case refused && got != nil:
			t.Errorf("a worker that may not ask the teacher sent it %q", *got)
		case !refused && (got == nil || *got != "Bearer "+key):
			t.Errorf("the teacher was asked without its key: %v", got)
		case !refused && run.counts["t"].New != 2:
			t.Errorf("%+v", run.counts["t"])
		}
	}
}
