package teachers

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/url"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// EndpointIdentity names what answers are kept under: the hex of the first 16
// bytes of SHA-256 over the API family and the identity, or, where that is "",
// the normalised URL (32 characters). The online and the batch form of one API
// are one family, so they share their answers.
func EndpointIdentity(api, baseURL, identity string) string {
	buf := chat.AppendString([]byte(`{"api":`), strings.TrimSuffix(api, "-batch"))
	if identity != "" {
		buf = chat.AppendString(append(buf, `,"identity":`...), identity)
	} else {
		buf = chat.AppendString(append(buf, `,"url":`...), normalURL(baseURL))
	}
	sum := sha256.Sum256(append(buf, '}'))
	return hex.EncodeToString(sum[:16])
}

// normalURL is a URL with what does not change the endpoint taken out: the
// case of scheme and host, the default port, a trailing dot or slash, the
// order of the query, user information and fragment.
func normalURL(raw string) string {
	raw = strings.TrimSpace(raw)
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return strings.TrimRight(raw, "/")
	}
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	switch {
	case port != "" && port != defaultPorts[scheme]:
		host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		host = "[" + host + "]"
	}
	out := scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
	if q := u.Query().Encode(); q != "" {
		out += "?" + q
	}
	return out
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}
