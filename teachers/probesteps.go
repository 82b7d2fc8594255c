package teachers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"sync"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// first asks what every teacher must be able to answer: it shows whether the
// key and the model are right, and in which form answers come.
func (p *prober) first(ctx context.Context) {
	prompt := probePrompt("What is 17 + 25? Think for a moment, then answer with the number.")
	answer, reply, e := p.ask(ctx, prompt, probeCap, nil)
	if e != nil && p.otherForm(e) {
		answer, reply, e = p.ask(ctx, prompt, probeCap, nil)
	}
	if e != nil {
		p.fail(e)
		return
	}
	r := p.result
	stream, _ := dialects[p.config.API].formats()
	streamed := reply.Format == stream
	r.Streaming = &streamed
	r.ModelAnswered, r.Fingerprint, r.ReasoningField = answer.Model, answer.Fingerprint, answer.ReasoningField
	r.CapField = p.capField()
	r.UsagePlace = usagePlace(reply.Format, reply.Raw)
	r.FirstTextS, r.LatencyS = reply.TTFT.Seconds(), reply.Latency.Seconds()
	if r.ModelAnswered != "" && r.ModelAnswered != p.config.Model {
		p.note("the model that answered calls itself %s", r.ModelAnswered)
	}
	if r.UsagePlace == usageNowhere {
		p.note("no token counts came: tokens and costs of its answers are estimates")
	}
	for _, flag := range answer.Flags {
		switch flag {
		case FlagControlTokens:
			p.note("control tokens leaked into the text: the server's chat template or parser does not fit the model")
		case FlagSecretRedacted:
			p.note("its answer repeats a key of this machine")
		}
	}
	if answer.Finish == "length" && answer.Message.Content == nil {
		p.note("it was still reasoning after %d tokens: give params a cap of several thousand", probeCap)
	}
}

// otherForm changes the request where the endpoint refused a part of it that
// has another form, and tells whether it did.
func (p *prober) otherForm(e *Error) bool {
	words := strings.ToLower(e.Excerpt)
	if e.Class != ClassBadRequest {
		return false
	}
	field := p.capField()
	switch {
	case strings.Contains(words, "stream_options") && p.open.UsageOption:
		p.open.UsageOption = false
		return true
	case strings.Contains(words, field):
		p.open.CapFields = []string{otherCap(field)}
		return true
	}
	return false
}

func otherCap(field string) string {
	if field == "max_tokens" {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// limits asks for a long list with a short cap, and asks the same again with
// equal and with other seeds. Where the cap is not kept under one name it is
// tried under the other: some servers know only one, and ignore the other.
func (p *prober) limits(ctx context.Context) {
	p.brief = true
	defer func() { p.brief = false }()
	prompt := probePrompt("Write a list of one hundred random words, one on each line.")
	seeded := p.config.API != "anthropic" // whose protocol has none
	one, ok := p.listed(ctx, prompt, seeded, 7)
	if p.result.Cap == AbilityIgnored {
		field := p.capField()
		p.open.CapFields = []string{otherCap(field)}
		p.result.Cap = AbilityUntried
		one, ok = p.listed(ctx, prompt, seeded, 7)
		if p.result.Cap == AbilityIgnored {
			p.open.CapFields = []string{field}
			p.note("it ignores the token cap, so nothing bounds what an answer costs; a budget cannot hold here")
			return // more of its answers would be long ones
		}
		if p.result.Cap == AbilityYes {
			p.result.CapField = p.capField()
		}
	}
	if !ok || !seeded {
		return
	}
	two, ok2 := p.listed(ctx, prompt, true, 7)
	other, ok3 := p.listed(ctx, prompt, true, 8)
	switch {
	case !ok2 || !ok3:
	case one != two:
		p.result.Seed = AbilityIgnored
	case one == other:
		p.result.Seed = AbilityUnproven
	default:
		p.result.Seed = AbilityYes
	}
}

// listed asks for the list once, and tells what came of it with this seed. A
// seed that is refused is left out, for the sake of the cap.
func (p *prober) listed(ctx context.Context, prompt *chat.Prompt, seeded bool, seed int) (text string, ok bool) {
	more := map[string]any{}
	if seeded && p.result.Seed != AbilityRefused {
		more["seed"] = seed
	}
	if seeded && !p.fixed("temperature") && p.params["temperature"] == nil {
		more["temperature"] = 1
	}
	answer, _, e := p.ask(ctx, prompt, probeShortCap, more)
	switch {
	case e == nil:
	case e.Class == ClassTooLarge:
		p.result.Cap = AbilityIgnored
		return "", false
	case p.passing(e, "seed and cap"):
		return "", false
	case more["seed"] != nil:
		p.result.Seed = AbilityRefused
		return p.listed(ctx, prompt, seeded, seed)
	default:
		p.note("cap: %s", e.Excerpt)
		return "", false
	}
	p.capKept(answer)
	for t := range texts(&Answer{Message: answer.Message, Refusal: answer.Refusal}) {
		text += t + "\x00"
	}
	return text, more["seed"] != nil
}

// capKept notes whether an answer ended at the short cap. One answer beyond it
// is enough to know that it is not kept.
func (p *prober) capKept(a *Answer) {
	most := capOfProbe(p.params, probeShortCap)
	tokens := FillUsage(a, nil, func() int64 { return 0 }).CompletionTokens
	cut := a.Finish == "length" || a.Finish == "max_tokens"
	beyond := tokens > most+most/2+8
	if cut && beyond && !p.beyond {
		p.beyond = true
		p.note("its cap does not bound what is billed: an answer took %d tokens under a cap of %d, probably because reasoning is not counted; a budget cannot hold here", tokens, most)
	}
	switch {
	case beyond && !cut:
		p.result.Cap = AbilityIgnored
	case p.result.Cap == AbilityUntried && cut:
		p.result.Cap = AbilityYes
	case p.result.Cap == AbilityUntried:
		p.result.Cap = AbilityUnproven
	}
}

// fixed tells whether the endpoint is known to refuse a parameter or to have a
// value of its own for it.
func (p *prober) fixed(param string) bool {
	profile := p.profile.ForModel(p.config.Model)
	return slices.ContainsFunc(profile.Unsupported, func(u Unsupported) bool { return u.Param == param && u.Becomes != ParamIgnored })
}

// logprobs asks for the log probabilities of a few tokens.
func (p *prober) logprobs(ctx context.Context) {
	if p.config.API != "openai" {
		return // the protocol has none
	}
	prompt := probePrompt("Say hello.")
	ask := func(top int) (*Answer, *Error) {
		answer, _, e := p.ask(ctx, prompt, probeShortCap, map[string]any{"logprobs": true, "top_logprobs": top})
		return answer, e
	}
	asked := probeLogprobs
	answer, e := ask(asked)
	if e != nil && !e.Temporary() && !e.StopsTeacher() {
		asked = fewLogprobs
		answer, e = ask(asked)
	}
	switch {
	case e != nil:
		if !p.passing(e, "logprobs") {
			p.result.Logprobs = AbilityRefused
			p.topLogprobs(0)
		}
	case answer.Logprobs == nil || answer.Logprobs.Len() == 0:
		p.result.Logprobs = AbilityIgnored
		p.topLogprobs(0)
	case answer.Logprobs.Gaps() == answer.Logprobs.Len():
		p.result.Logprobs = AbilityIgnored
		p.topLogprobs(0)
		p.note("every logprob that came is null or a placeholder")
	default:
		p.result.Logprobs = AbilityYes
		p.topLogprobs(min(answer.Logprobs.K(), asked))
	}
}

func (p *prober) topLogprobs(n int) { p.result.TopLogprobs = &n }

const probeTool = `[{"type":"function","function":{"name":"get_weather","description":"The weather of a city.","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]`

// tools offers one tool and asks for what only the tool can tell.
func (p *prober) tools(ctx context.Context) {
	prompt := probePrompt("What is the weather in Oslo right now? Use the tool get_weather.")
	prompt.Tools = probeTool
	answer, _, e := p.ask(ctx, prompt, probeToolCap, nil)
	switch {
	case e != nil:
		if !p.passing(e, "tools") {
			p.result.Tools = AbilityRefused
		}
	case len(answer.Message.ToolCalls) > 0:
		p.result.Tools = AbilityYes
		if answer.ArgsValid != nil && !*answer.ArgsValid {
			p.note("the arguments of its tool call are no JSON")
		}
	case answer.Finish == "length" || answer.Finish == "max_tokens":
		p.result.Tools = AbilityUnproven
	default:
		p.result.Tools = AbilityIgnored
	}
}

// images shows a red square and asks for its colour.
func (p *prober) images(ctx context.Context) {
	data := redSquare()
	sum := sha256.Sum256(data)
	prompt := probePrompt("Which colour is this picture? Answer with one word.")
	prompt.Images = []chat.Image{{Digest: hex.EncodeToString(sum[:]), MediaType: "image/png"}}
	answer, _, e := p.ask(ctx, prompt, probeToolCap, nil)
	switch {
	case e != nil:
		if !p.passing(e, "images") {
			p.result.Images = AbilityRefused
		}
	case answer.Message.Content != nil && strings.Contains(strings.ToLower(*answer.Message.Content), "red"):
		p.result.Images = AbilityYes
	default:
		p.result.Images = AbilityUnproven
	}
}

func probePicture(context.Context, chat.Image) ([]byte, error) { return redSquare(), nil }

// redSquare is a PNG of 64 by 64 pixels: some models refuse smaller pictures.
var redSquare = sync.OnceValue(func() []byte {
	picture := image.NewPaletted(image.Rect(0, 0, 64, 64), color.Palette{color.RGBA{R: 220, A: 255}})
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		panic("encode a picture in memory: " + err.Error())
	}
	return b.Bytes()
})
