package activities

import (
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/secrets"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// A recipe that names a worker's key and an address of its own gets no key there.
func TestAKeyBoundToAnotherHostIsNotSent(t *testing.T) {
	const key = "sk-canary-0123456789"
	sent := ""
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		sent = r.Header.Get("Authorization")
		return teacherstest.Reply{Content: "x"}
	})
	ask := func(hosts string) error {
		t.Helper()
		ring := secrets.New(secrets.Options{
			Lookup: func(name string) (string, bool) { return key, name == "TEACHER_KEY" },
			Allow:  &secrets.Allow{Hosts: secrets.ParseHosts(hosts)},
		})
		config := &teachers.Config{ID: "t", API: "openai", BaseURL: server.URL, Model: "m"}
		useKey(config, &recipe.Teacher{ID: "t", APIKeyEnv: "TEACHER_KEY"}, ring)
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
	err := ask("TEACHER_KEY=api.example.com")
	if err == nil || sent != "" || !strings.Contains(err.Error(), "STILLHOUSE_KEY_HOSTS") || strings.Contains(err.Error(), key) {
		t.Errorf("%v; sent %q", err, sent)
	}
	if err := ask("TEACHER_KEY=api.example.com,127.0.0.1"); err != nil || sent != "Bearer "+key {
		t.Errorf("%v; sent %q", err, sent)
	}
}
