package images

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// one is a PNG of one pixel.
var one, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

const oneDigest = "6b7fa434f92a8b80aab02d9bf1a12e49ffcae424e4013a1c4f68b67e3d2bbcd0"

// said is the reason of a fault; "" for an image, and the whole error for any
// other.
func said(err error) string {
	var known *Fault
	switch {
	case err == nil:
		return ""
	case errors.As(err, &known):
		return known.Reason
	}
	return "not a fault: " + err.Error()
}

func TestKinds(t *testing.T) {
	for _, tc := range []struct{ name, data, want string }{
		{"png", string(one), "image/png"},
		{"jpeg", "\xff\xd8\xff\xe0\x00\x10JFIF", "image/jpeg"},
		{"gif", "GIF89a\x01\x00", "image/gif"},
		{"webp", "RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"},
		{"svg", "<svg xmlns='http://www.w3.org/2000/svg'/>", ""},
		{"html", "<html>not found</html>", ""},
		{"riff that is sound", "RIFF\x10\x00\x00\x00WAVEfmt ", ""},
		{"the beginning of one", "\x89PNG", ""},
	} {
		i, err := Of("x", []byte(tc.data))
		if (i == nil) != (tc.want == "") || i != nil && i.MediaType != tc.want {
			t.Errorf("%s: %v %v", tc.name, i, err)
		}
	}
	if i, err := Of("x", one); err != nil || i.Digest != oneDigest {
		t.Errorf("%+v %v", i, err)
	}
	if _, err := Of("x", nil); said(err) != "it is empty" {
		t.Error(err)
	}
	if _, err := Of("x", append(bytes.Clone(one), make([]byte, MaxBytes)...)); !strings.Contains(said(err), "larger than 20 MiB") {
		t.Error(err)
	}
}

func TestDataURI(t *testing.T) {
	text := base64.StdEncoding.EncodeToString(one)
	for _, tc := range []struct{ name, ref, want string }{
		{"a png", "data:image/png;base64," + text, ""},
		{"in capitals, of another kind than it says", "DATA:image/jpeg;charset=x;BASE64," + text, ""},
		{"without padding", "data:;base64," + strings.TrimRight(text, "="), ""},
		{"for addresses", "data:;base64," + base64.URLEncoding.EncodeToString(one), ""},
		{"with line breaks", "data:;base64," + text[:20] + "\r\n" + text[20:], ""},
		{"plain text", "data:image/png,abc", "want data:image/png;base64,…"},
		{"nothing", "data:", "want data:image/png;base64,…"},
		{"no base64", "data:;base64,@@@@", "its base64 text can't be read"},
		{"no image", "data:image/png;base64,aGVsbG8=", "its bytes are no PNG, JPEG, GIF or WebP; convert it"},
		{"empty", "data:image/png;base64,", "it is empty"},
		{"too large", "data:image/png;base64," + strings.Repeat("A", 30<<20), "it is larger than 20 MiB; make it smaller"},
	} {
		i, err := DataURI(tc.ref)
		if said(err) != tc.want || err == nil && (i.Digest != oneDigest || i.MediaType != "image/png") {
			t.Errorf("%s: %q, want %q", tc.name, said(err), tc.want)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%s: an error of %d bytes", tc.name, len(err.Error()))
		}
	}
}

func TestPathsStayInTheirFolder(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "data")
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(top, "secret.png"), one)
	write(filepath.Join(dir, "a", "cat.png"), one)
	write(filepath.Join(dir, "notes.txt"), []byte("hello"))
	write(filepath.Join(dir, "huge.png"), append(bytes.Clone(one), make([]byte, MaxBytes)...))
	for link, to := range map[string]string{"out.png": "../secret.png", "up": "..", "abs.png": filepath.Join(top, "secret.png"), "in.png": "a/cat.png", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	folder, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	const leads = "leads out of the prompt file's folder; move the image into it"
	for ref, want := range map[string]string{
		"a/cat.png":        "",
		"./a/../a/cat.png": "",
		"in.png":           "",
		"none.png":         "there is no such file in the prompt file's folder",
		"../secret.png":    leads,
		"a/../../x.png":    leads,
		"out.png":          leads,
		"up/secret.png":    leads,
		"abs.png":          leads,
		"/etc/hostname":    "is an absolute path; write it relative to the prompt file's folder",
		"":                 "is no path",
		"a\x00b":           "is no path",
		"a":                "is no plain file",
		"notes.txt":        "its bytes are no PNG, JPEG, GIF or WebP; convert it",
		"huge.png":         "it is larger than 20 MiB; make it smaller",
	} {
		i, err := folder.Read(ref)
		if said(err) != want || err == nil && i.Digest != oneDigest {
			t.Errorf("%q: %q, want %q", ref, said(err), want)
		}
	}
	if _, err := folder.Read("loop"); err == nil {
		t.Error("a link to itself is an image")
	}
}

func TestPublicAddresses(t *testing.T) {
	for _, at := range []string{
		"0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.9.9.9", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.168.1.1",
		"192.0.0.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::7f00:1", "64:ff9b::a00:1",
		"fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "ff02::1", "2001:db8::1", "2002:0a00:0001::1", "fec0::1",
		"::ffff:0:10.0.0.1", "1::1", "4000::1", "168.63.129.16", "::ffff:168.63.129.16", "100.100.100.200", "192.0.0.192",
	} {
		if public(netip.MustParseAddr(at)) == nil {
			t.Errorf("%s is taken for public", at)
		}
	}
	for _, at := range []string{"8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"} {
		if err := public(netip.MustParseAddr(at)); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// A site is a server on loopback that tests take for a public one.
type site struct {
	*httptest.Server
	requests atomic.Int64
}

func newSite(t *testing.T, handle http.HandlerFunc) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		for _, name := range []string{"Authorization", "Cookie", "Referer"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s is sent", name)
			}
		}
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// fetcherTo trusts a site's certificate and takes its address for public, the
// first connections times; after that the real rule holds.
func fetcherTo(t *testing.T, s *site, connections int64) *Fetcher {
	t.Helper()
	var made atomic.Int64
	f := newFetcher(func(at netip.Addr) error {
		if made.Add(1) <= connections {
			return nil
		}
		return public(at)
	}, s.Client().Transport.(*http.Transport).TLSClientConfig)
	f.wait = func(context.Context, int) error { return nil }
	t.Cleanup(f.Close)
	return f
}

func TestFetch(t *testing.T) {
	var failures atomic.Int64
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cat.png":
			w.Header().Set("Content-Type", "text/html") // the bytes count
			_, _ = w.Write(one)
		case "/moved.png":
			http.Redirect(w, r, "/cat.png", http.StatusFound)
		case "/loop.png":
			http.Redirect(w, r, "/loop.png", http.StatusFound)
		case "/down.png":
			http.Redirect(w, r, "http://"+r.Host+"/cat.png", http.StatusFound)
		case "/file.png":
			http.Redirect(w, r, "file:///etc/hostname", http.StatusFound)
		case "/page":
			_, _ = w.Write([]byte("<html>"))
		case "/huge.png":
			w.WriteHeader(http.StatusOK)
			_, _ = w.Write(one)
			for range MaxBytes >> 16 {
				_, _ = w.Write(make([]byte, 1<<16))
			}
		case "/busy.png":
			if failures.Add(1) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write(one)
		case "/broken.png":
			w.WriteHeader(http.StatusBadGateway)
		default:
			http.NotFound(w, r)
		}
	})
	f := fetcherTo(t, s, 1<<30)
	for _, tc := range []struct{ ref, want string }{
		{s.URL + "/cat.png", ""},
		{s.URL + "/moved.png", ""},
		{s.URL + "/busy.png", ""},
		{s.URL + "/none.png", "the server answers 404 Not Found"},
		{s.URL + "/loop.png", "it redirects too often"},
		{s.URL + "/down.png", "is not an https address"},
		{s.URL + "/file.png", "is not an https address"},
		{s.URL + "/page", "its bytes are no PNG, JPEG, GIF or WebP; convert it"},
		{s.URL + "/huge.png", "it is larger than 20 MiB; make it smaller"},
		{strings.Replace(s.URL, "https:", "http:", 1) + "/cat.png", "is not an https address"},
		{"https://user:password@host/cat.png", "holds a user or a password; remove it"},
		{"https:///cat.png", "has no host"},
		{"ftp://host/cat.png", "is not an https address"},
		{"https://[", "is no address"},
	} {
		i, err := f.Fetch(t.Context(), tc.ref)
		if said(err) != tc.want || err == nil && i.Digest != oneDigest {
			t.Errorf("%s: %q, want %q", tc.ref, said(err), tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "password@") {
			t.Errorf("%v", err)
		}
	}
	_, err := f.Fetch(t.Context(), s.URL+"/broken.png?key=secret")
	if said(err) != fmt.Sprintf("not a fault: fetch image %s/broken.png: the server answers 502 Bad Gateway; try again later", s.URL) {
		t.Errorf("%v", err)
	}
}

// A server words its status as it likes, and what it says ends up on a terminal.
func TestStatusInOurWords(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, nil)
	plain := tls.NewListener(l, s.TLS)
	defer plain.Close()
	words := make(chan string, 1)
	go func() {
		for {
			c, err := plain.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 "+<-words+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			}
			_ = c.Close()
		}
	}()
	f := fetcherTo(t, s, 1<<30)
	f.wait = func(context.Context, int) error { return context.Canceled }
	for status, want := range map[string]string{
		"404 \x1b]0;mine\x07": "the server answers 404 Not Found",
		"503 \x1b[2Jmine":     "the server answers 503 Service Unavailable; try again later",
	} {
		words <- status
		_, err := f.Fetch(t.Context(), "https://"+l.Addr().String()+"/cat.png")
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

// The address that counts is the one that is connected to: not what the
// reference looks like, not what a name meant a moment ago, not the first of
// several redirects.
func TestPrivateAddressesAreRefused(t *testing.T) {
	inner := newSite(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(one) })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(inner.URL, "https://"))
	outer := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inner.URL+"/cat.png", http.StatusTemporaryRedirect)
	})
	const want = "its host is a private or local address, which prompts may not name"
	real := NewFetcher(nil)
	defer real.Close()
	for _, ref := range []string{
		inner.URL + "/cat.png",
		"https://localhost:" + port + "/cat.png", // a name that means this machine
		"https://127.1:" + port + "/cat.png",
		"https://[::ffff:127.0.0.1]:" + port + "/cat.png",
		"https://0x7f000001:" + port + "/cat.png",
		"https://169.254.169.254/latest/meta-data/",
		"https://[fd00:ec2::254]/",
	} {
		if _, err := real.Fetch(t.Context(), ref); err == nil || said(err) != want && !strings.Contains(said(err), "no such host") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	// The first connection is to a public host, which sends us to a private one.
	if _, err := fetcherTo(t, outer, 1).Fetch(t.Context(), outer.URL+"/cat.png"); said(err) != want {
		t.Errorf("after a redirect: %v", err)
	}
	// The name means a public host at first and a private one at the next
	// connection (DNS rebinding).
	f := fetcherTo(t, inner, 1)
	if _, err := f.Fetch(t.Context(), inner.URL+"/cat.png"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := f.Fetch(t.Context(), inner.URL+"/cat.png"); said(err) != want {
		t.Errorf("after rebinding: %v", err)
	}
	if n := inner.requests.Load(); n != 1 {
		t.Errorf("%d requests reached the private host", n-1)
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	asked := make(chan struct{})
	s := newSite(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	f := fetcherTo(t, s, 1<<30)
	f.wait = backOff
	go func() {
		<-asked
		cancel()
	}()
	if _, err := f.Fetch(ctx, s.URL+"/cat.png"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func FuzzDataURI(f *testing.F) {
	f.Add("data:image/png;base64,iVBORw0KGgo=")
	f.Add("data:;base64,")
	f.Fuzz(func(t *testing.T, ref string) {
		i, err := DataURI(ref)
		if (err == nil) != (i != nil && i.MediaType != "" && len(i.Data) > 0) {
			t.Fatalf("%+v %v", i, err)
		}
		if err != nil && said(err) == "not a fault: "+err.Error() {
			t.Fatal(err)
		}
	})
}

// Whoever is bounded in whom it asks is so at the first address and at those that
// it is sent on to.
func TestAddressesThatMayBeAsked(t *testing.T) {
	inner := newSite(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(one) })
	outer := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inner.URL+"/cat.png", http.StatusFound)
	})
	f := fetcherTo(t, outer, 9)
	f.mayAsk = func(address string) error {
		if strings.HasPrefix(address, inner.URL) {
			return errors.New("this worker does not ask there")
		}
		return nil
	}
	for _, ref := range []string{inner.URL + "/cat.png", outer.URL + "/cat.png"} {
		if _, err := f.Fetch(t.Context(), ref); said(err) != "this worker does not ask there" {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if n := inner.requests.Load(); n != 0 {
		t.Errorf("%d requests reached the host that may not be asked", n)
	}
}
