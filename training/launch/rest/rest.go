// Package rest asks the REST API of a cluster: one address, credentials that
// are named and never kept, answers of a bounded size, no redirects.
package rest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
)

// Bounds of one exchange.
const (
	DefaultTimeout = time.Minute
	maxBody        = 32 << 20 // of an answer that is read whole
	maxExcerpt     = 500      // of an answer in an error
	maxSecret      = 64 << 10
)

// A Config says where an API is and how we show who we are. Credentials are
// named: by a variable of this process, or by the absolute path of a file,
// which is read anew for each request, so that a token can be renewed.
type Config struct {
	// URL is the address that the API's paths follow, such as
	// https://ray.example.com:8265, or unix:///run/slurmrestd.sock. Since a submission carries URLs that open
	// parts of the store, http is for loopback only, unless Plaintext says that
	// the network between is trusted.
	URL       string `yaml:"url"`
	Plaintext bool   `yaml:"plaintext"`
	// Token names a credential that is sent as Authorization: Bearer.
	Token string `yaml:"token"`
	// Headers names a credential for each header, such as that of a proxy.
	Headers map[string]string `yaml:"headers"`
	// CA is a file of certificates that the server's must descend from, in place
	// of the system's. Cert and Key are files of a certificate of our own.
	CA   string `yaml:"ca"`
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
	// Timeout bounds an exchange. Default: [DefaultTimeout].
	Timeout time.Duration `yaml:"timeout"`
}

// A Client asks one API. Its methods may be called at the same time.
type Client struct {
	base    string
	headers map[string]string // header: name of a credential
	bearer  string
	timeout time.Duration
	http    *http.Client
	redact  func(string) string
	plain   map[string]string // header: its value, no secret
}

// New checks a configuration; nobody is asked yet.
func New(c Config) (*Client, error) {
	address := c.URL
	socket, local := strings.CutPrefix(address, "unix://")
	if local {
		if !filepath.IsAbs(socket) {
			return nil, fmt.Errorf("url: socket %q is not absolute; want unix:///path", socket)
		}
		address = "http://localhost"
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("url: want http://host:port or https://host:port") // it may hold a password
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("url: %s://%s has more than host, port and path; credentials are named in token and headers", u.Scheme, u.Host)
	case u.Scheme == "http" && !c.Plaintext && !Loopback(u.Hostname()):
		return nil, fmt.Errorf("url: %s://%s would carry secrets in the clear; use https, or set plaintext where the network between is trusted", u.Scheme, u.Host)
	}
	if c.Timeout < 0 {
		return nil, fmt.Errorf("timeout: %s is negative", c.Timeout)
	}
	for name := range c.Headers {
		if name == "" || strings.ContainsAny(name, " :\r\n") {
			return nil, fmt.Errorf("headers: %q is no header", name)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = c.tls(); err != nil {
		return nil, err
	}
	if local {
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}
	}
	out := &Client{
		base: strings.TrimRight(u.String(), "/"), headers: c.Headers, bearer: c.Token, timeout: c.Timeout,
		http: &http.Client{
			Transport: transport,
			// Who answers with another address gets neither credentials nor URLs there.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if out.timeout == 0 {
		out.timeout = DefaultTimeout
	}
	return out, nil
}

// Loopback tells whether a host, as a URL names it, is this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c *Config) tls() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca: %s holds no certificate", c.CA)
		}
	}
	if (c.Cert == "") != (c.Key == "") {
		return nil, errors.New("cert, key: one is of no use without the other")
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("cert: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// Redacting is the client with a function that takes secrets out of what a
// server answers, before it becomes part of an error.
func (c *Client) Redacting(redact func(string) string) *Client {
	out := *c
	out.redact = redact
	return &out
}

// With is the client with a header that is no secret.
func (c *Client) With(header, value string) *Client {
	out := *c
	out.plain = maps.Clone(c.plain)
	if out.plain == nil {
		out.plain = map[string]string{}
	}
	out.plain[header] = value
	return &out
}

// URL is the address, for people.
func (c *Client) URL() string { return c.base }

// A StatusError is an answer that says no.
type StatusError struct {
	Method, URL string
	Status      int
	Text        string // beginning and end of what was answered, without control characters
}

// Error tells status, address and an excerpt.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s %s: HTTP status %d", e.Method, e.URL, e.Status)
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

// Do sends a request, with in as JSON where it is not nil, and returns the
// answer's body. An answer whose status is not 2xx is a [*StatusError].
func (c *Client) Do(ctx context.Context, method, path string, in any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	body, err := c.open(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("%s %s: read the answer: %w", method, c.base+path, err)
	}
	if len(text) > maxBody {
		return nil, fmt.Errorf("%s %s: the answer is larger than %d bytes", method, c.base+path, maxBody)
	}
	return text, nil
}

// Stream gives the body of an answer to read. The context ends with it.
func (c *Client) Stream(ctx context.Context, path string, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	body, err := c.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := read(body); err != nil {
		return fmt.Errorf("GET %s: read the answer: %w", c.base+path, err)
	}
	return nil
}

func (c *Client) open(ctx context.Context, method, path string, in any) (io.ReadCloser, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", method, c.base+path, err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	// No client of net/http sends a POST twice by itself, for it can't tell
	// whether the first was heard. Neither do we.
	req.GetBody = nil
	req.Header.Set("User-Agent", "stillhouse")
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for header, value := range c.plain {
		req.Header.Set(header, value)
	}
	for header, name := range c.headers {
		if err := set(req, header, "", name); err != nil {
			return nil, err
		}
	}
	if c.bearer != "" {
		if err := set(req, "Authorization", "Bearer ", c.bearer); err != nil {
			return nil, err
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err // it names method and address, and no header
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxBody)) // what came of it is worth telling
	if c.redact != nil {
		text = []byte(c.redact(string(text)))
	}
	return nil, &StatusError{Method: method, URL: c.base + path, Status: resp.StatusCode, Text: Excerpt(string(text))}
}

func set(req *http.Request, header, before, name string) error {
	value, err := Secret(name)
	if err != nil {
		return fmt.Errorf("header %s: %w", header, err)
	}
	req.Header.Set(header, before+value)
	return nil
}

// Secret reads a credential: of a variable, or of a file where name is an
// absolute path. An error never holds a part of it.
func Secret(name string) (string, error) {
	value := os.Getenv(name)
	if filepath.IsAbs(name) {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxSecret))
		if err != nil {
			return "", err
		}
		value = string(text)
	}
	value = strings.TrimSpace(value)
	switch {
	case value == "":
		return "", fmt.Errorf("%s is empty or not there", name)
	case strings.ContainsAny(value, "\r\n\x00"):
		return "", fmt.Errorf("%s has more than one line", name)
	}
	return value, nil
}

// query is that of a URL: where one is presigned, it is the secret.
var query = regexp.MustCompile(`(https?://[^\s"'<>?]*)\?[^\s"'<>]+`)

// WithoutQueries takes the queries out of the URLs of a text, for a presigned
// URL is one by its query.
func WithoutQueries(text string) string { return query.ReplaceAllString(text, "$1?*") }

// LastLines cuts a text to its last bytes, at most tail, from the start of a
// line where there is one. One byte more tells whether a line starts.
func LastLines(text []byte, tail int) string {
	if tail <= 0 {
		return ""
	}
	if over := len(text) - tail; over > 0 {
		before := text[over-1]
		text = text[over:]
		if _, rest, found := strings.Cut(string(text), "\n"); before != '\n' && found && rest != "" {
			text = []byte(rest)
		}
	}
	return WithoutQueries(training.Printable(strings.ToValidUTF8(string(text), "")))
}

// Excerpt keeps the beginning and the end of a text on one line: where a server
// answers with a stack trace, what went wrong stands at its end. URLs lose
// their queries.
func Excerpt(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(training.Printable(WithoutQueries(text))), " "), "")
	if len(text) <= maxExcerpt {
		return text
	}
	return strings.ToValidUTF8(text[:maxExcerpt/4], "") + " … " + strings.ToValidUTF8(text[len(text)-maxExcerpt*3/4:], "")
}
