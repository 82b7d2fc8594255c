package flight

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
)

// A ticket names one data file of one version, and how its rows are to be
// shaped. It goes out as JSON behind its signature.
type ticket struct {
	Request  Request `json:"request"` // with the ref of the very version
	Manifest string  `json:"manifest"`
	Part     int     `json:"part"`
	SHA256   string  `json:"sha256"` // of the data file
}

// errTicket is what errors about a ticket wrap: it was changed, or is another
// server's.
var errTicket = errors.New("bad ticket")

// ticketKey is what tickets are signed with. It follows from the token, so
// that tickets outlive the process, and is no help in finding it.
func ticketKey(token string) []byte {
	h := hmac.New(sha256.New, []byte(token))
	h.Write([]byte("stillhouse flight ticket"))
	return h.Sum(nil)
}

func (s *Server) sign(t ticket) ([]byte, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	return append(s.signature(text), text...), nil
}

func (s *Server) signature(text []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write(text)
	return h.Sum(nil)
}

func (s *Server) open(data []byte) (t ticket, err error) {
	if len(data) < sha256.Size || len(data) > 2*maxCommandBytes || !hmac.Equal(data[:sha256.Size], s.signature(data[sha256.Size:])) {
		return t, fmt.Errorf("%w: it is none of this server, or was changed; take it from a flight info", errTicket)
	}
	if err := decode(data[sha256.Size:], &t); err != nil {
		return t, fmt.Errorf("%w: %w", errTicket, err)
	}
	return t, nil
}
