package teachers

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
)

// maxRedirects bounds how often one request is sent on.
const maxRedirects = 4

// keyedHeader is the header of all requests that go out with one key. It is
// shared by requests under way and never changed.
type keyedHeader struct {
	key    string
	header http.Header
}

// header is what a request with that key carries.
func (c *Client) header(key string) http.Header {
	if last := c.keyed.Load(); last != nil && last.key == key {
		return last.header
	}
	h := maps.Clone(c.headers)
	if key != "" {
		authorize(h, c.dialect, c.profile, key)
	}
	c.keyed.Store(&keyedHeader{key: key, header: h})
	return h
}

// basicAuth is the header of a user and password in a base URL, which the
// transport leaves to its caller.
func basicAuth(u *url.URL, h http.Header) {
	if u.User == nil || h.Get("Authorization") != "" {
		return
	}
	password, _ := u.User.Password()
	r := http.Request{Header: h}
	r.SetBasicAuth(u.User.Username(), password)
}

// send sends one request and follows redirects within the host. It goes to the
// transport straight: what http.Client does beside that, this client does not
// need, and it costs as much as reading the answer.
func (c *Client) send(ctx context.Context, body []byte, key string, dog *watchdog) (*http.Response, error) {
	template := http.Request{
		Method: http.MethodPost, URL: c.target, Host: c.target.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: c.header(key), ContentLength: int64(len(body)),
	}
	ctx = httptrace.WithClientTrace(ctx, &dog.trace)
	for hop := 0; ; hop++ {
		request := template.WithContext(ctx)
		request.Body = io.NopCloser(bytes.NewReader(body))
		request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		response, err := c.transport.RoundTrip(request)
		if err != nil {
			return nil, plainly(err)
		}
		target := redirected(request.URL, response)
		if target == nil || hop == maxRedirects {
			return response, nil
		}
		_, _ = io.CopyN(io.Discard, response.Body, errorBodyBytes) // so that the connection can be used again
		response.Body.Close()
		template.URL, template.Host = target, target.Host
	}
}

// redirected is where a response sends the request on, unchanged and to the
// same scheme and host; nil otherwise: elsewhere neither key nor prompt may go.
func redirected(from *url.URL, response *http.Response) *url.URL {
	if response.StatusCode != http.StatusTemporaryRedirect && response.StatusCode != http.StatusPermanentRedirect {
		return nil
	}
	location := response.Header.Get("Location")
	if location == "" {
		return nil
	}
	to, err := from.Parse(location)
	if err != nil || to.Scheme != from.Scheme || !strings.EqualFold(to.Host, from.Host) {
		return nil
	}
	return to
}

// plainly says in words what a server that speaks no TLS looks like to one that
// expects it, as http.Client does.
func plainly(err error) error {
	var header tls.RecordHeaderError
	if errors.As(err, &header) && string(header.RecordHeader[:]) == "HTTP/" {
		return http.ErrSchemeMismatch
	}
	return err
}
