package recipe

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// secretName matches a secret of the AWS Secrets Manager as its service names
// them, or its ARN; #member names a member of a secret that is a JSON object.
var secretName = regexp.MustCompile(`^(arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:)?[A-Za-z0-9/_+=.@-]{1,512}(#[^#\s]{1,256})?$`)

// keyShaped matches what looks like a key and not like the name of one.
var keyShaped = regexp.MustCompile(`(?i)^(sk|pk|rk|hf|gsk|xai|key)[-_][A-Za-z0-9_-]{16,}$`)

// keyRefs are the ways in which a recipe refers to a key, with what each says.
func (t *Teacher) keyRefs() []keyRef {
	var refs []keyRef
	for _, r := range []keyRef{{"api_key_env", t.APIKeyEnv}, {"api_key_file", t.APIKeyFile}, {"api_key_secret", t.APIKeySecret}} {
		if r.value != "" {
			refs = append(refs, r)
		}
	}
	return refs
}

type keyRef struct{ key, value string }

// HasKey tells whether the recipe refers to a key for this teacher.
func (t *Teacher) HasKey() bool { return len(t.keyRefs()) > 0 }

// keys checks how a teacher's key is referred to. A value is never shown: it
// may be the key itself.
func (c *checker) keys(t *Teacher, path string, address *url.URL) {
	refs := t.keyRefs()
	if len(refs) == 0 {
		return
	}
	for _, r := range refs[1:] {
		c.fault(path+"."+r.key, "stands beside "+refs[0].key, "a key comes from one place: keep one of the two")
	}
	if name := t.APIKeyEnv; name != "" {
		if !envName.MatchString(name) {
			c.fault(path+".api_key_env", "is no variable's name", "write the name of the variable that holds the key, never the key")
		}
		if reservedEnv(name) {
			c.fault(path+".api_key_env", "names a variable of the store or of Temporal", "a teacher's key has a variable of its own")
		}
	}
	if file := t.APIKeyFile; file != "" && (!filepath.IsAbs(file) && !strings.HasPrefix(file, "~/") || len(file) > 4096 || strings.ContainsFunc(file, unicode.IsControl)) {
		c.fault(path+".api_key_file", "is no absolute path", "write where the file lies on the machine that asks, such as /run/secrets/teacher or ~/.keys/teacher; never the key")
	}
	if name := t.APIKeySecret; name != "" && (!secretName.MatchString(name) || keyShaped.MatchString(name)) {
		c.fault(path+".api_key_secret", "is neither a secret's name nor its ARN", "write the name that the AWS Secrets Manager shows, such as teachers/moonshot or teachers/all#moonshot; never the key")
	}
	if address.Scheme == "http" && !isLoopback(address.Hostname()) {
		c.fault(path+".base_url", fmt.Sprintf("would send the key of %s in the clear", refs[0].key), "use https, or remove "+refs[0].key)
	}
}
