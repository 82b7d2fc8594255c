package recipe

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
)

// keyHeader matches the names, in lower case, of headers that carry credentials,
// which belong in a variable.
var keyHeader = regexp.MustCompile(`authorization|cookie|api-?key|secret|password|^auth$|(^|[-_])(key|token)$`)

// maxAnswer bounds limits.max_bytes: a larger answer would be paid for and could
// not be kept.
const maxAnswer = ByteSize(192 << 20)

// ownHeaders are set by the client.
var ownHeaders = []string{"content-length", "content-type", "host", "connection", "transfer-encoding", "accept-encoding", "accept"}

// ownParams are set by this program; a recipe that set them would be asked
// something else than it is told.
var ownParams = map[string]string{
	"stream":         "answers are always streamed; remove it",
	"stream_options": "usage is always asked for; remove it",
	"n":              "one answer is asked at a time; write ask: {samples: …}",
	"messages":       "the prompts are the messages; remove it",
	"model":          "write it as the teacher's model",
	"user":           "remove it",
}

// reservedIDs are words of reports and routes.
var reservedIDs = []string{"all", "domain", "none", "rules"}

func idRune(r rune) bool {
	return r != '/' && r != '\\' && r != utf8.RuneError && unicode.IsPrint(r) && !unicode.IsSpace(r)
}

func (c *checker) teacher(t *Teacher, path string) {
	if t.API == APIRecorded {
		c.recorded(t, path)
	} else {
		c.endpoint(t, path)
	}
	c.batch(t, path)
	c.profile(t, path)
	c.headers(t, path)
	c.params(t.Params, path+".params")
	for e, params := range t.ParamsBy.Effort {
		c.params(params, join(path+".params_by.effort", e))
	}
	for i, s := range t.Serves {
		at := indexed(path+".serves", i)
		if s.Domain != "" {
			c.label(s.Domain, at+".domain")
		}
		for j, e := range s.Effort {
			c.label(e, indexed(at+".effort", j))
		}
	}
	if l := t.Limits; l.FirstByte > l.Total || l.Idle > l.Total {
		c.fault(path+".limits", fmt.Sprintf("total (%s) is shorter than first_byte or idle", l.Total), "raise total or lower the other")
	}
	if l := t.Limits; l.NoProgress > 0 && l.NoProgress < l.Idle {
		c.fault(path+".limits.no_progress", fmt.Sprintf("%s is shorter than idle (%s), which would never pass", l.NoProgress, l.Idle), "raise it, or lower idle")
	}
	if l := t.Limits.MaxBytes; l > maxAnswer {
		c.fault(path+".limits.max_bytes", fmt.Sprintf("%s: so large an answer could not be kept", l), fmt.Sprintf("write %s or less", maxAnswer))
	}
	if t.Identity != "" && (len(t.Identity) > 256 || strings.ContainsFunc(t.Identity, unicode.IsControl)) {
		c.fault(path+".identity", "is longer than 256 bytes or holds a control character", "use a short name such as kimi-k3-eu")
	}
}

func (c *checker) teacherIDs() {
	first := map[string]int{}
	for i := range c.r.Teachers {
		id, path := c.r.Teachers[i].ID, fmt.Sprintf("teachers[%d].id", i)
		switch j, twice := first[id]; {
		case id == "":
			c.fault(path, "is missing", "add id: … or model: …")
		case len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return !idRune(r) }):
			c.fault(path, quote(id)+" is no id", "use at most 64 printable characters, no slash and no space")
		case slices.Contains(reservedIDs, id):
			c.fault(path, quote(id)+" is a word of routes and reports", "choose another id")
		case twice:
			c.fault(path, fmt.Sprintf("id %s is taken by teachers[%d]", quote(id), j), "give each teacher an id of its own: id: …")
		default:
			first[id] = i
		}
	}
}

func (c *checker) recorded(t *Teacher, path string) {
	if t.Path == "" {
		c.fault(path+".path", "is missing", "recorded answers are read from files: add path: …")
	}
	for _, key := range []string{"base_url", "api_key_env", "api_key_file", "api_key_secret", "headers", "params", "params_by", "limits"} {
		if c.has(join(path, key)) {
			c.fault(join(path, key), "has no use for recorded answers", "remove it, or write another api")
		}
	}
	f := &t.Fields
	c.fieldPaths(path+".fields", map[string]string{
		"prompt": f.Prompt, "messages": f.Messages, "system": f.System, "content": f.Content, "reasoning": f.Reasoning,
		"finish": f.Finish, "model": f.Model, "completion_tokens": f.CompletionTokens,
	})
	if f.Prompt != "" && f.Messages != "" {
		c.fault(path+".fields.messages", "stands beside prompt", "keep one of the two")
	}
	if f.Content == "" && f.Messages == "" {
		c.fault(path+".fields.content", "is missing", "name the column of the answer: fields: {content: …}, or of the conversation: fields: {messages: …}")
	}
}

func (c *checker) endpoint(t *Teacher, path string) {
	for _, key := range []string{"path", "fields"} {
		if c.has(join(path, key)) {
			c.fault(join(path, key), "is for recorded answers", "remove it, or write api: recorded")
		}
	}
	if t.Model == "" {
		c.fault(path+".model", "is missing", "add model: … as the endpoint calls it")
	}
	at := path + ".base_url"
	if t.BaseURL == "" && t.Batch.Folder != "" {
		return
	}
	if t.BaseURL == "" {
		c.fault(at, "is missing", "add base_url: https://…/v1")
		return
	}
	u, err := url.Parse(t.BaseURL)
	switch {
	// The address is not shown: what is wrong with it may be a key in it.
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		c.fault(at, "is no address", "write it such as https://api.example.com/v1")
		return
	case u.Scheme != "https" && u.Scheme != "http":
		c.fault(at, "has scheme "+quote(u.Scheme)+", want https or http", "write it such as https://api.example.com/v1")
		return
	case u.User != nil:
		c.fault(at, "holds a user or a password", "put the key in an environment variable and write api_key_env: NAME")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		c.fault(at, "has a query or a fragment", "end it at the version, such as /v1")
	case strings.HasSuffix(u.Path, "/chat/completions"), strings.HasSuffix(u.Path, "/messages"):
		c.fault(at, "names one call", "end it before "+u.Path[strings.LastIndex(strings.TrimSuffix(u.Path, "/completions"), "/"):])
	}
	c.keys(t, path, u)
}

func (c *checker) headers(t *Teacher, path string) {
	for name, value := range t.Headers {
		at := join(path+".headers", name)
		lower := strings.ToLower(name)
		switch {
		case !headerName.MatchString(name):
			c.fault(at, quote(name)+" is no header name", "use letters, digits and dashes")
		case keyHeader.MatchString(lower), strings.HasPrefix(strings.ToLower(value), "bearer "):
			c.fault(at, "a key must not be written into a recipe", "put it in an environment variable and write api_key_env: NAME")
		case slices.Contains(ownHeaders, lower):
			c.fault(at, "is set by the client", "remove it")
		case strings.ContainsFunc(value, unicode.IsControl):
			c.fault(at, "holds a control character", "write one line of text")
		}
	}
}

// reservedEnv tells the variables that hold the credentials of our own
// services: a recipe must not be able to send them to a teacher's address.
// AWS_BEARER_TOKEN_BEDROCK is the key of a teacher.
func reservedEnv(name string) bool {
	if name == "AWS_BEARER_TOKEN_BEDROCK" {
		return false
	}
	for _, prefix := range []string{"AWS_", "TEMPORAL_", "STILLHOUSE_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func (c *checker) params(params map[string]any, path string) {
	for key := range params {
		if hint, ok := ownParams[key]; ok {
			c.fault(join(path, key), "is not yours to set", hint)
		}
		if slices.Contains(keyWords, fold(key)) {
			c.fault(join(path, key), "a key must not be written into a recipe", "put it in an environment variable and write api_key_env: NAME")
		}
	}
}

// keyWords are what people call a literal key, folded.
var keyWords = []string{"apikey", "key", "token", "secret", "password", "accesstoken", "bearer"}

// isLoopback tells whether a host is this machine by its name alone; nothing
// is looked up.
func isLoopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// isPrivate tells whether a host means another machine elsewhere: loopback,
// private and link-local addresses, names without a dot, and names of local
// networks.
func isPrivate(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if isLoopback(host) {
		return true
	}
	if i := strings.IndexByte(host, '%'); i >= 0 {
		host = host[:i] // a zone makes an address local, but does not parse
	}
	if ip := net.ParseIP(host); ip != nil {
		_, shared, _ := net.ParseCIDR("100.64.0.0/10")
		return ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified() || shared.Contains(ip)
	}
	if !strings.Contains(host, ".") {
		return true
	}
	return slices.ContainsFunc([]string{".local", ".internal", ".lan", ".home.arpa", ".localhost"}, func(s string) bool {
		return strings.HasSuffix(host, s)
	})
}

// CheckEnv reports every key variable that is not set or empty, as [Errors].
// It is apart from loading because plan asks no teacher and needs no key.
func (r *Recipe) CheckEnv(lookup func(name string) (string, bool)) error {
	var errs Errors
	for i := range r.Teachers {
		name := r.Teachers[i].APIKeyEnv
		if name == "" {
			continue
		}
		if value, ok := lookup(name); !ok || strings.TrimSpace(value) == "" {
			errs = append(errs, r.ErrorAt(fmt.Sprintf("teachers[%d].api_key_env", i), "variable "+name+" is not set", "run: export "+name+"=… (teacher "+quote(r.Teachers[i].ID)+")"))
		}
	}
	return errs.orNil()
}

// CheckStore reports, as [Errors], every teacher whose answers could be mixed
// up with another machine's: on a remote store a loopback or private address
// says nothing about who answered. A local store has one such machine only.
func (r *Recipe) CheckStore(remote bool) error {
	if !remote {
		return nil
	}
	var errs Errors
	for i := range r.Teachers {
		t := &r.Teachers[i]
		u, err := url.Parse(t.BaseURL)
		if t.API == APIRecorded || t.Identity != "" || err != nil || !isPrivate(u.Hostname()) {
			continue
		}
		errs = append(errs, r.ErrorAt(fmt.Sprintf("teachers[%d].base_url", i),
			"is a loopback or private address, which means another machine to others who use this store",
			"add identity: NAME, one name for one deployment of the model"))
	}
	return errs.orNil()
}

func (e Errors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	return e.sorted()
}

// unknownKey says what is wrong with a key that is not declared. The value is
// never shown.
func unknownKey(section, key string, known []string) (msg, hint string) {
	msg = "unknown key " + quote(key)
	if section != "Teacher" {
		return msg, didYouMean(key, known)
	}
	switch {
	case slices.Contains(keyWords, fold(key)):
		return "a key must not be written into a recipe", "put it in an environment variable and write api_key_env: NAME"
	case slices.Contains([]string{"temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "seed", "stop", "reasoning_effort"}, key):
		return msg, "request parameters stand under params: {" + key + ": …}"
	case slices.Contains([]string{"url", "endpoint", "baseurl", "apibase"}, fold(key)):
		return msg, "did you mean \"base_url\"?"
	}
	return msg, didYouMean(key, known)
}
