package teachers

import (
	"fmt"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A dialect is a wire form: where requests go, how they carry the key, what
// their body holds beside the canonical part, and how responses read. One
// file each.
type dialect interface {
	// path follows the base URL.
	path() string
	// keyHeader is where the key goes unless a profile says otherwise.
	keyHeader() string
	// headers are those that every request carries unless a recipe sets them;
	// the names are in lower case.
	headers() map[string]string
	// messages appends the conversation's value, the images by digest.
	messages(dst []byte, r *Request, p *chat.Prompt, profile *Profile) ([]byte, error)
	// system appends the value of a system member, and nothing where the
	// dialect has none or the prompt has no system text.
	system(dst []byte, p *chat.Prompt) []byte
	// tools are the declarations of a prompt, which come in canonical form.
	tools(list []byte) ([]byte, error)
	// appendImage appends what stands where the canonical body has a digest.
	appendImage(dst []byte, mediaType string, data []byte) []byte
	// appendWire appends the members that go out before those of the
	// canonical body: transport fields and the token cap, each followed by a
	// comma.
	appendWire(dst []byte, p *Profile, r *Request) []byte
	// answerHeader tells whether a request header changes the answer. The
	// name is in lower case.
	answerHeader(name string) bool
	// decoder reads one response.
	decoder() decoder
	// formats are the names of the streamed and the plain form.
	formats() (stream, plain string)
}

// A decoder accumulates one response. It keeps no reference to its arguments.
type decoder interface {
	// event reads one event of a stream and tells whether it brought the
	// answer forward. name is "" for the default event.
	event(name, data []byte) (progress bool, err error)
	// whole reads a response that is one JSON object.
	whole(body []byte) error
	// finished tells whether a terminal finish reason was seen.
	finished() bool
	// closed tells whether the endpoint said that nothing follows.
	closed() bool
	// answer is what was read, or why it is no answer.
	answer() (*Answer, error)
}

var dialects = map[string]dialect{
	"openai":    openAI{},
	"anthropic": anthropic{},
}

// dialectOf finds the dialect of an API.
func dialectOf(api string) (dialect, error) {
	if d, ok := dialects[api]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("api %q: no such wire form; this build speaks openai and anthropic", api)
}

func dialectOfFormat(format string) (d dialect, stream bool, err error) {
	for _, d := range dialects {
		switch s, p := d.formats(); format {
		case s:
			return d, true, nil
		case p:
			return d, false, nil
		}
	}
	return nil, false, fmt.Errorf("format %q: no parser in this build reads it", format)
}
