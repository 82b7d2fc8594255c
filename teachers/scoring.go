package teachers

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Forms of scoring endpoints, for NewScorer. Each is a wire form of its own: a
// [Client] of the scorer's config asks it with the same permits, retries,
// limits and purse as any teacher, and its answers are kept like any.
const (
	ScoreVLLM    = "vllm-score"    // POST /v1/score: a cross-encoder over prompt and answer
	PoolingVLLM  = "vllm-pooling"  // POST /pooling: a reward model over the conversation
	ClassifyVLLM = "vllm-classify" // POST /classify: a classifier over the conversation
	RerankTEI    = "tei-rerank"    // POST /rerank: text-embeddings-inference, prompt as query
)

// Scorers are the forms that NewScorer takes.
func Scorers() []string { return []string{ScoreVLLM, PoolingVLLM, ClassifyVLLM, RerankTEI} }

// A Scorer builds requests to a reward model or a cross-encoder and reads what
// it says. Make a [Client] of its Config. It is safe for concurrent use.
type Scorer struct {
	// Config is the teacher's, in the wire form of the scoring endpoint. Its
	// answers are kept apart from the teacher's own: see EndpointIdentity.
	Config *Config
	form   string
	params map[string]any
	class  int
	heads  map[string]string
}

// ScorerOptions say what is asked beside the texts.
type ScorerOptions struct {
	// Params are further members of the body, passed through as they are, such
	// as truncate_prompt_tokens.
	Params map[string]any
	// Class is the index of the class whose probability is the score of a
	// classifier; -1 is the last one. Default 0; use -1 for a classifier of
	// {bad, good}.
	Class int
}

// NewScorer makes a scorer of a teacher's endpoint. The base URL may end in
// /v1: endpoints that have no such path are asked without.
func NewScorer(c *Config, form string, o ScorerOptions) (*Scorer, error) {
	if !slices.Contains(Scorers(), form) {
		return nil, fmt.Errorf("%s: scoring form %q: there are %s", c.name(), form, strings.Join(Scorers(), ", "))
	}
	if o.Class < -1 {
		return nil, fmt.Errorf("%s: class %d: want 0 or more, or -1 for the last", c.name(), o.Class)
	}
	for name := range o.Params {
		if slices.Contains(scoringMembers, name) {
			return nil, fmt.Errorf("%s: %s is no parameter: it is what is scored; remove it", c.name(), name)
		}
	}
	own := *c
	own.API = form
	if form != ScoreVLLM {
		own.BaseURL = strings.TrimSuffix(strings.TrimRight(c.BaseURL, "/"), "/v1")
	}
	return &Scorer{Config: &own, form: form, params: o.Params, class: o.Class, heads: answerHeaders(scoring{form: form}, c.Headers)}, nil
}

// scoringMembers are the members of a body that hold what is scored.
var scoringMembers = []string{"model", "messages", "input", "text_1", "text_2", "query", "texts", "queries", "documents"}

// Request asks for the score of one answer to a prompt.
func (s *Scorer) Request(p *chat.Prompt, answer *chat.Message) (*Request, error) {
	body := map[string]any{}
	for name, value := range s.params {
		if value != nil {
			body[name] = value
		}
	}
	if s.form != RerankTEI { // it serves one model and knows no name
		body["model"] = s.Config.Model
	}
	switch s.form {
	case ScoreVLLM:
		body["text_1"], body["text_2"] = transcript(p), replyText(answer)
	case RerankTEI:
		body["query"], body["texts"] = transcript(p), []string{replyText(answer)}
	default:
		messages := append(slices.Clip(p.All()), *answer)
		body["messages"] = json.RawMessage(chat.AppendMessages(nil, messages))
		if p.Tools != "" {
			body["tools"] = json.RawMessage(p.Tools)
		}
	}
	plain, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Config.name(), err)
	}
	r := &Request{AnswerHeaders: s.heads, ParamsText: "{}", Price: s.Config.Price}
	if r.Body, err = chat.Canonical(plain); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Config.name(), err)
	}
	if len(s.params) > 0 {
		asked, err := canonicalValue(s.params)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Config.name(), err)
		}
		r.ParamsText = string(asked)
	}
	return r, nil
}

// transcript is a prompt as one text: the last user's text alone where there is
// nothing else, otherwise every turn after its role.
func transcript(p *chat.Prompt) string {
	if p.System == "" && len(p.Messages) == 1 {
		return p.LastUser()
	}
	var b strings.Builder
	for i, m := range p.All() {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(m.Role)
		b.WriteString(": ")
		b.WriteString(replyText(&m))
	}
	return b.String()
}

// replyText is a message as one text: its content and its tool calls, without
// its reasoning, which no judge of an answer should see.
func replyText(m *chat.Message) string {
	var b strings.Builder
	if m.Content != nil {
		b.WriteString(*m.Content)
	}
	for _, c := range m.ToolCalls {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "[calls %s(%s)]", c.Name, c.Arguments)
	}
	return b.String()
}

// A Score is what a scorer or a judge says of one answer.
type Score struct {
	// Value is on the scale of whoever gave it; nil where it is unknown: a
	// missing score is never a number.
	Value *float64
	// Why says why it is unknown; "" where it is known.
	Why string
}

func unknownScore(format string, args ...any) Score { return Score{Why: fmt.Sprintf(format, args...)} }

func knownScore(v float64) Score { return Score{Value: &v} }

// Read takes the score out of an answer: the one number of a cross-encoder, the
// last number of a reward model (that of the last token or step), or the
// probability of a classifier's class.
func (s *Scorer) Read(a *Answer) Score {
	values := a.Scores
	switch {
	case len(values) == 0:
		return unknownScore("the endpoint sent no score")
	case (s.form == ScoreVLLM || s.form == RerankTEI) && len(values) != 1:
		return unknownScore("the endpoint sent %d scores for one answer", len(values))
	}
	at := len(values) - 1
	if s.form == ClassifyVLLM && s.class >= 0 {
		at = s.class
	}
	if at >= len(values) {
		return unknownScore("the endpoint knows %d classes, not %d", len(values), at+1)
	}
	v := values[at]
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return unknownScore("the endpoint sent no finite number")
	}
	if s.form == ClassifyVLLM && (v < 0 || v > 1) {
		return unknownScore("%v is no probability", v)
	}
	return knownScore(v)
}

// scoring is the wire form of a scoring endpoint.
type scoring struct {
	openAI
	form string
}

func (s scoring) path() string {
	switch s.form {
	case PoolingVLLM:
		return "/pooling"
	case ClassifyVLLM:
		return "/classify"
	case RerankTEI:
		return "/rerank"
	}
	return "/score"
}

func (s scoring) appendWire(dst []byte, _ *Profile, r *Request) []byte {
	if s.form == RerankTEI {
		// Scores as the model gives them, and an error instead of a cut text.
		dst = append(dst, `"raw_scores":true,"truncate":false,`...)
	}
	return append(dst, r.transport...)
}

func (s scoring) decoder() decoder { return &scoreDecoder{form: s.form} }

// formats: nothing of this is streamed.
func (s scoring) formats() (stream, plain string) { return s.form + "-sse", s.form + "-json" }

func init() {
	for _, form := range Scorers() {
		dialects[form] = scoring{form: form}
	}
	dialects[PromptLogprobsVLLM] = promptScoring{}
}
