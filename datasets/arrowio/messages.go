package arrowio

import (
	"bytes"

	"github.com/apache/arrow/go/v17/arrow/ipc"
)

// payloads sends each message of a stream by itself.
type payloads struct {
	send func(header, body []byte) error
	body bytes.Buffer
	n    int64
}

var _ ipc.PayloadWriter = (*payloads)(nil)

// Start implements ipc.PayloadWriter.
func (p *payloads) Start() error { return nil }

// WritePayload implements ipc.PayloadWriter.
func (p *payloads) WritePayload(payload ipc.Payload) error {
	header := payload.Meta()
	defer header.Release()
	p.body.Reset()
	if err := payload.SerializeBody(&p.body); err != nil {
		return err
	}
	p.n += int64(header.Len() + p.body.Len())
	return p.send(header.Bytes(), p.body.Bytes())
}

// Close implements ipc.PayloadWriter.
func (p *payloads) Close() error { return nil }
