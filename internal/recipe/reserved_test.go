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

func TestAKeyComesFromOnePlace(t *testing.T) {
	recipe := func(address, keys string) []byte {
		return []byte("name: d\nprompts: [{path: p.jsonl}]\nteachers: [{base_url: \"" + address + "\", model: m, " + keys + "}]\n")
	}
	const https = "https://t.example/v1"
	for _, c := range []struct{ address, keys, fault string }{
		{https, "api_key_file: /run/secrets/t", ""},
		{https, "api_key_file: ~/.keys/t", ""},
		{"http://127.0.0.1:8000/v1", "api_key_file: /run/secrets/t", ""},
		{https, "api_key_secret: teachers/moonshot", ""},
		{https, "api_key_secret: \"arn:aws:secretsmanager:eu-west-1:123456789012:secret:teachers/all-AbCdEf#moonshot\"", ""},
		{https, "api_key_file: keys/t", "is no absolute path"},
		{https, "api_key_file: \"/run/\\x01\"", "is no absolute path"},
		{https, "api_key_secret: \"two words\"", "is neither a secret's name nor its ARN"},
		{https, "api_key_secret: sk-abcdefghijklmnop1234", "is neither a secret's name nor its ARN"},
		{https, "api_key_env: K, api_key_file: /run/secrets/t", "api_key_file: stands beside api_key_env"},
		{https, "api_key_secret: s, api_key_file: /run/secrets/t", "api_key_secret: stands beside api_key_file"},
		{"http://10.0.0.1/v1", "api_key_file: /run/secrets/t", "would send the key of api_key_file in the clear"},
		{"http://10.0.0.1/v1", "api_key_secret: s", "would send the key of api_key_secret in the clear"},
		{https, "limits: {idle: 5m, no_progress: 1m}", "no_progress: 1m0s is shorter than idle"},
	} {
		r, err := Parse("r.yaml", recipe(c.address, c.keys))
		switch {
		case c.fault == "" && err != nil:
			t.Errorf("%s: %v", c.keys, err)
		case c.fault == "" && !r.Teachers[0].HasKey():
			t.Errorf("%s: no key", c.keys)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: %v, want %q", c.keys, err, c.fault)
		case err != nil && strings.Contains(err.Error(), "sk-abc"):
			t.Errorf("%s: the message shows what may be a key: %v", c.keys, err)
		}
	}
}
