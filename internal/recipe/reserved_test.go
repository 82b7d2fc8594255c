package recipe

import (
	"strings"
	"testing"
)

func TestOurOwnCredentialsAreNoTeachersKey(t *testing.T) {
	recipe := func(name string) []byte {
		return []byte("name: d\nprompts: [{path: p.jsonl}]\nteachers: [{base_url: \"https://t.example/v1\", model: m, api_key_env: " + name + "}]\n")
	}
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "TEMPORAL_API_KEY", "STILLHOUSE_STORE"} {
		_, err := Parse("r.yaml", recipe(name))
		if err == nil || !strings.Contains(err.Error(), "api_key_env") {
			t.Errorf("%s: %v, want it refused", name, err)
		}
	}
	for _, name := range []string{"OPENAI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"} {
		if _, err := Parse("r.yaml", recipe(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
