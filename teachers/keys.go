package teachers

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// keyAllowed tells whether a key may go to a URL: only over https or to
// loopback.
func keyAllowed(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	if u.Scheme == "https" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// key resolves the key and refuses to send it, or any other secret of the
// configuration, in the clear. A key whose place cannot be read for a while,
// such as a secret store that is busy, does not make the teacher unusable.
func (c *Client) key() (string, *Error) {
	var key string
	if c.config.Key != nil {
		var err error
		if key, err = c.config.Key(); err != nil {
			e := &Error{Class: ClassAuth, Excerpt: c.hidden("").excerpt("the API key cannot be read: " + err.Error()), cause: err}
			var t interface{ Temporary() bool }
			if errors.As(err, &t) && t.Temporary() {
				e.Class = ClassServer
			}
			return "", e
		}
	}
	if (key != "" || len(c.secrets) > 0) && !keyAllowed(c.url) {
		return "", &Error{Class: ClassAuth, Excerpt: "a key goes out only over https or to loopback; use an https base_url", cause: errInsecure}
	}
	return strings.TrimSpace(key), nil
}

var errInsecure = errors.New("insecure endpoint")

// hidden are all secrets that an answer or a message to this teacher must not
// hold: those of its configuration, the key that is sent, and what else this
// process knows.
func (c *Client) hidden(key string) secrets {
	all := c.secrets[:len(c.secrets):len(c.secrets)]
	add := func(s string) {
		if len(s) >= minSecret && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	add(key)
	if c.config.Known != nil {
		for _, s := range c.config.Known() {
			add(s)
		}
	}
	return all
}

// renews tells whether a request that was refused for its key is to be sent
// again with another one, which is done once: a key may be rotated while a
// build runs.
func (a *asking) renews(e *Error) bool {
	if e.Status != http.StatusUnauthorized || a.renewed || a.client.config.Renew == nil {
		return false
	}
	a.renewed = true
	return a.client.config.Renew(a.key)
}

// keyInAnswer is an answer that holds a key in a form in which it cannot be
// taken out: nothing of it may be kept.
func keyInAnswer(status int) *Error {
	return &Error{Class: ClassMalformed, Status: status, final: true,
		Excerpt: "the answer repeats a key of this machine, in a form in which it cannot be taken out; nothing of it was kept; look why this endpoint repeats keys"}
}
