package teachers

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A recipe may name any address, and a worker has credentials at some: they are
// never asked, however the address is written.
func TestNoTeacherIsWhereACloudKeepsCredentials(t *testing.T) {
	for _, host := range []string{
		"169.254.169.254", "169.254.170.2", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "100.100.100.200", "168.63.129.16", "[64:ff9b::a9fe:a9fe]",
	} {
		config := &Config{ID: "t", API: "openai", BaseURL: "http://" + host + "/latest/meta-data/?x=", Model: "m"}
		builder, err := NewBuilder(config, nil)
		if err != nil {
			t.Fatal(err)
		}
		question := "q"
		request, err := builder.Request(&chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: &question}}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		client := NewClient(config)
		_, online := client.Ask(t.Context(), request)
		client.Close()
		batch, err := NewBatchClient(config)
		if err != nil {
			t.Fatal(err)
		}
		_, status := batch.Status(t.Context(), "b")
		batch.Close()
		for how, err := range map[string]error{"online": online, "batch": status} {
			var e *Error
			if !errors.As(err, &e) || e.Class != ClassNotFound || !errors.Is(e, errMetadata) || !strings.Contains(err.Error(), "base_url") {
				t.Errorf("%s, %s: %v", host, how, err)
			}
		}
	}
	for address, want := range map[string]error{
		"127.0.0.1:80": nil, "[::1]:80": nil, "10.0.0.8:8000": nil, "100.100.100.100:80": nil, "[fd00::1]:80": nil, "[fe80::1%eth0]:80": nil, "8.8.8.8:443": nil,
		"[fe80::a9fe:a9fe%eth0]:80": errMetadata, "[fd20:ce::254]:80": errMetadata, "192.0.0.192:80": errMetadata,
	} {
		if err := RefuseMetadata(context.Background(), "tcp", address, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", address, err, want)
		}
	}
}
