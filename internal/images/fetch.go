package images

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// How an image is fetched.
const (
	fetchTime     = 60 * time.Second // for one image, redirects included
	connectTime   = 10 * time.Second
	mostRedirects = 5
	fetchTries    = 3
)

// A Fetcher gets images from https addresses. It looks at the address that each
// connection is really made to, after the name was looked up, and at every
// redirect: one that is private, of this machine or of no use elsewhere is
// refused. It sends no credentials and uses no proxy, which would connect for
// it unseen. It is safe for concurrent use. Close it.
type Fetcher struct {
	client *http.Client
	wait   func(ctx context.Context, try int) error
	mayAsk func(address string) error // nil: any public one
}

// NewFetcher makes a fetcher. mayAsk says, where it is given, which addresses it
// may ask, redirects included.
func NewFetcher(mayAsk func(address string) error) *Fetcher {
	f := newFetcher(public, nil)
	f.mayAsk = mayAsk
	return f
}

// newFetcher makes a fetcher that connects where allowed says so. roots are the
// authorities that it trusts, nil for the system's.
func newFetcher(allowed func(netip.Addr) error, config *tls.Config) *Fetcher {
	dialer := &net.Dialer{Timeout: connectTime, ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("connect to %s: %w", address, err)
		}
		if network != "tcp4" && network != "tcp6" {
			return &refused{fmt.Sprintf("%s is no way to an image", network)}
		}
		return allowed(at.Addr())
	}}
	f := &Fetcher{wait: backOff}
	f.client = &http.Client{
		Timeout: fetchTime,
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: config, TLSHandshakeTimeout: connectTime, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second, ResponseHeaderTimeout: fetchTime, DisableCompression: true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			r.Header.Del("Referer") // the address before may hold a secret
			if len(via) > mostRedirects {
				return &refused{"it redirects too often"}
			}
			return f.addressFault(r.URL)
		},
	}
	return f
}

// Close closes idle connections.
func (f *Fetcher) Close() { f.client.CloseIdleConnections() }

// refused is why a connection is not made.
type refused struct{ reason string }

func (r *refused) Error() string { return r.reason }

// addressFault says why an address is not asked at all.
func (f *Fetcher) addressFault(u *url.URL) error {
	switch {
	case u.Scheme != "https":
		return &refused{"is not an https address"}
	case u.Hostname() == "":
		return &refused{"has no host"}
	case u.User != nil:
		return &refused{"holds a user or a password; remove it"}
	}
	if f.mayAsk != nil {
		if err := f.mayAsk(u.String()); err != nil {
			return &refused{err.Error()}
		}
	}
	return nil
}

// Fetch gets the image at an https address.
func (f *Fetcher) Fetch(ctx context.Context, ref string) (*Image, error) {
	u, err := url.Parse(ref)
	if err != nil {
		return nil, fault(ref, "is no address")
	}
	if err := f.addressFault(u); err != nil {
		return nil, fault(ref, "%v", err)
	}
	for try := 1; ; try++ {
		i, again, err := f.once(ctx, ref, u)
		var known *Fault
		if err == nil || !again || try == fetchTries || errors.As(err, &known) {
			return i, err
		}
		if f.wait(ctx, try) != nil {
			return nil, err
		}
	}
}

// backOff waits between two tries.
func backOff(ctx context.Context, try int) error {
	t := time.NewTimer(time.Duration(try) * 2 * time.Second)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// once tries once; again tells whether a failure may pass.
func (f *Fetcher) once(ctx context.Context, ref string, u *url.URL) (i *Image, again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, false, fault(ref, "is no address")
	}
	request.Header.Set("User-Agent", "stillhouse")
	request.Header.Set("Accept", "image/png, image/jpeg, image/gif, image/webp")
	response, err := f.client.Do(request)
	if err != nil {
		return nil, true, f.failed(ctx, ref, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= 500:
		return nil, true, fmt.Errorf("fetch image %s: the server answers %s; try again later", shown(ref), status(response))
	case response.StatusCode != http.StatusOK:
		return nil, false, fault(ref, "the server answers %s", status(response))
	case response.ContentLength > MaxBytes:
		return nil, false, tooLarge(ref)
	}
	i, err = readAll(ref, response.Body)
	var known *Fault
	if err != nil && !errors.As(err, &known) {
		return nil, true, f.failed(ctx, ref, err)
	}
	return i, false, err
}

// status is a response's status in our words: the server's own are its own choice.
func status(r *http.Response) string {
	return strings.TrimSpace(strconv.Itoa(r.StatusCode) + " " + http.StatusText(r.StatusCode))
}

// failed tells an address that is not asked from a network that fails.
func (f *Fetcher) failed(ctx context.Context, ref string, err error) error {
	var no *refused
	if errors.As(err, &no) {
		return fault(ref, "%s", no.reason)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return fault(ref, "there is no such host")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the address, which may hold a secret
	}
	return fmt.Errorf("fetch image %s: %w", shown(ref), err)
}

// notPublic are the ranges that mean another machine elsewhere, or none: IANA's
// special-purpose registries (RFC 6890 and what came after), and the ranges in
// which an IPv6 address carries an IPv4 address that would have to be looked at.
var notPublic = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // of Azure's hosts: a public address that is everybody's own machine
	"::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16",
	"3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

// globalUnicast is all of IPv6 that is given to machines of the public internet.
var globalUnicast = netip.MustParsePrefix("2000::/3")

const privateHost = "its host is a private or local address, which prompts may not name"

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// public refuses every address that is not one of the public internet.
func public(at netip.Addr) error {
	at = at.Unmap().WithZone("")
	if at.Is6() && !globalUnicast.Contains(at) {
		return &refused{privateHost}
	}
	for _, p := range notPublic {
		if p.Contains(at) {
			return &refused{privateHost}
		}
	}
	return nil
}
