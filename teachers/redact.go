package teachers

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

const redacted = "[redacted]"

// excerptBytes bounds the endpoint's words in an Error.
const excerptBytes = 1000

// secretHeader tells whether a request header is likely to hold a secret. The
// name is in lower case.
func secretHeader(name string) bool {
	if name == "authorization" || name == "cookie" || name == "proxy-authorization" {
		return true
	}
	for _, word := range []string{"key", "token", "secret", "password", "auth"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// secrets are the values that must not be seen: the key and what secret
// headers hold.
type secrets []string

// minSecret is the shortest value that is treated as one in an endpoint's
// words. Local servers take keys such as "x", which are no secret.
const minSecret = 4

// minSecretInAnswer is the shortest value that is looked for in an answer:
// there a false alarm would change training data.
const minSecretInAnswer = 16

func (c *Config) secrets(key string) secrets {
	var out secrets
	add := func(s string) {
		if s = strings.TrimSpace(s); len(s) >= minSecret {
			out = append(out, s)
		}
	}
	add(key)
	for name, value := range c.Headers {
		if secretHeader(strings.ToLower(name)) {
			add(value)
			if _, token, ok := strings.Cut(value, " "); ok {
				add(token) // of "Bearer TOKEN"
			}
		}
	}
	if u, err := url.Parse(c.BaseURL); err == nil {
		if password, ok := u.User.Password(); ok {
			add(password)
		}
		for name, values := range u.Query() {
			if secretHeader(strings.ToLower(name)) {
				for _, v := range values {
					add(v)
				}
			}
		}
	}
	return out
}

var keyPatterns = regexp.MustCompile(`(?i)\b(?:sk|pk|rk|api|key|hf|gsk|xai)[-_][A-Za-z0-9_\-]{16,}|\bbearer\s+[A-Za-z0-9._~+/=\-]{8,}`)

// excerpt makes an endpoint's words fit for a message: secrets out, also what
// looks like one, control characters out, white space folded, bounded.
func (s secrets) excerpt(text string) string {
	text = s.trimPartial(s.replace(text))
	text = keyPatterns.ReplaceAllString(text, redacted)
	var b strings.Builder
	space := false
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case !unicode.IsPrint(r):
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		if b.Len() > excerptBytes {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (s secrets) replace(text string) string {
	for _, secret := range s {
		text = string(formsOf(secret).replace([]byte(text), redacted))
	}
	return text
}

// trimPartial takes off the beginning of a secret at the end of a text that
// was cut.
func (s secrets) trimPartial(text string) string {
	for _, secret := range s {
		for _, form := range forms(secret) {
			for n := min(len(form)-1, len(text)); n >= minSecret; n-- {
				if strings.HasSuffix(text, form[:n]) {
					text = text[:len(text)-n]
					break
				}
			}
		}
	}
	return text
}

// answer takes secrets out of a raw response. The same slice comes back where
// there is none, which is always unless an endpoint echoes request headers.
func (s secrets) answer(raw []byte) []byte {
	if v := s.sieve(); v == nil || !v.holds(raw) {
		return raw
	}
	for _, secret := range s {
		if len(secret) >= minSecretInAnswer {
			raw = formsOf(secret).replace(raw, RedactedInAnswer)
		}
	}
	return raw
}

// plainSecret reads the same in text, in JSON and in a URL.
var plainSecret = regexp.MustCompile(`^[A-Za-z0-9_.~-]*$`)

// forms are the ways in which the beginning of a secret is written: in text, in
// JSON as several languages write it, and in a URL.
func forms(secret string) []string {
	if plainSecret.MatchString(secret) {
		return []string{secret}
	}
	quoted := string(chat.AppendString(nil, secret))
	ascii := strconv.QuoteToASCII(secret)
	forms := []string{secret, quoted[1 : len(quoted)-1], ascii[1 : len(ascii)-1], url.QueryEscape(secret), url.PathEscape(secret)}
	if html, err := json.Marshal(secret); err == nil {
		forms = append(forms, string(html[1:len(html)-1]))
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// redactURL is a URL without user information, query and fragment.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "[unreadable URL]"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
