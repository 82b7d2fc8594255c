package teachers

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/spell"
)

const (
	listLimit  = 20 * time.Second
	listBytes  = 16 << 20 // of a list of models; OpenRouter's has 1 MiB
	listModels = 20000
	nearModels = 5
)

// A modelList is what an endpoint says that it serves.
type modelList struct {
	known  bool // it gave a list
	models []listedModel
}

type listedModel struct {
	id, owner string
	context   int64 // tokens; 0: not told
}

// listModels reads /models beside the dialect's own path. An endpoint that has
// no such list is none the worse for it.
func (c *Client) listModels(parent context.Context) modelList {
	ctx, cancel := context.WithTimeout(parent, listLimit)
	defer cancel()
	path, _ := strings.CutSuffix(strings.TrimSuffix(c.dialect.path(), "/chat/completions"), "/messages")
	at, err := requestURL(c.config.BaseURL, path+"/models")
	if err != nil {
		return modelList{}
	}
	key, failure := c.key()
	if failure != nil {
		return modelList{}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return modelList{}
	}
	for name, values := range c.headers {
		if name != "Content-Type" {
			r.Header[name] = values
		}
	}
	r.Header.Set("Accept", "application/json")
	if key != "" {
		authorize(r.Header, c.dialect, c.profile, key)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return modelList{}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, listBytes+1))
	if err != nil || response.StatusCode != http.StatusOK || len(body) > listBytes {
		return modelList{}
	}
	return readModelList(c.hidden(key).answer(body))
}

// readModelList reads {"data": [{"id", …}]}, as everybody writes it, also under
// "models", and a bare list.
func readModelList(body []byte) modelList {
	body = body[skipSpace(body, 0):]
	if end, err := skipValue(body, 0, 0); err != nil || end == 0 {
		return modelList{}
	}
	var l modelList
	if body[0] == '[' {
		l.read(body)
		return l
	}
	c := walk(body)
	for c.next() {
		if name := string(c.name); (name == "data" || name == "models") && len(c.value) > 0 && c.value[0] == '[' && len(l.models) == 0 {
			l.read(c.value)
		}
	}
	return l
}

func (l *modelList) read(list []byte) {
	l.known = true
	c := walk(list)
	for len(l.models) < listModels && c.next() {
		var m listedModel
		m.read(c.value, 0)
		if m.id != "" {
			l.models = append(l.models, m)
		}
	}
}

// contextFields are where servers tell how many tokens a model takes. llama.cpp
// tells both what the model was trained with and what it was started with.
var contextFields = []string{"context_length", "max_model_len", "context_window", "max_context_length", "max_input_tokens", "n_ctx"}

func (m *listedModel) read(value []byte, depth int) {
	c := walk(value)
	for c.next() {
		name := string(c.name)
		switch {
		case depth == 0 && (name == "id" || name == "name" && m.id == ""):
			m.id = textOf(c.value)
		case depth == 0 && name == "owned_by":
			m.owner = textOf(c.value)
		case slices.Contains(contextFields, name), name == "n_ctx_train" && m.context == 0:
			if n, ok := wholeNumber(c.value); ok && n > 0 {
				m.context = n
			}
		case depth == 0 && (name == "meta" || name == "top_provider"):
			m.read(c.value, 1)
		}
	}
}

// near are the listed names nearest to one that is not listed.
func (l *modelList) near(model string) []string {
	type scored struct {
		id    string
		score int
	}
	model = strings.ToLower(model)
	var found []scored
	for _, m := range l.models {
		id := strings.ToLower(m.id)
		own := id[strings.LastIndexByte(id, '/')+1:]
		score := min(spell.Distance(bounded64(id), bounded64(model)), spell.Distance(bounded64(own), bounded64(model[strings.LastIndexByte(model, '/')+1:])))
		if strings.Contains(id, model) || strings.Contains(model, id) {
			score = min(score, 1)
		}
		if score <= max(len(model)/2, 3) {
			found = append(found, scored{m.id, score})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return a.score - b.score })
	var names []string
	for _, f := range found[:min(len(found), nearModels)] {
		names = append(names, f.id)
	}
	if names == nil && len(l.models) > 0 && len(l.models) <= nearModels {
		for _, m := range l.models {
			names = append(names, m.id)
		}
	}
	return names
}

func bounded64(s string) string { return s[:min(len(s), 64)] }

// readList tells what the list says of the teacher's model.
func (p *prober) readList() {
	if !p.list.known {
		return
	}
	r := p.result
	n := len(p.list.models)
	r.ModelsListed = &n
	listed := false
	for _, m := range p.list.models {
		if m.id != p.config.Model {
			continue
		}
		listed = true
		if m.context > 0 {
			r.ContextLength = &m.context
		}
		break
	}
	r.ModelListed = &listed
	if !listed {
		r.NearestModels = p.list.near(p.config.Model)
	}
}

// owners are what servers call themselves in their lists.
var owners = map[string]string{"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "library": "ollama"}

// suggest says what of the profile in effect is other than what was seen.
func (p *prober) suggest() {
	var s ProbeProfile
	r := p.result
	base := p.profile
	for _, m := range p.list.models {
		if name := owners[m.owner]; name != "" && m.id == p.config.Model && p.profile.Name == profileGeneric {
			s.Base = name
			base, _ = ProfileOf(name)
		}
	}
	base = base.ForModel(p.config.Model)
	if len(base.CapFields) == 0 || r.CapField != base.CapFields[0] {
		s.CapField = r.CapField
	}
	if base.UsageOption && !p.open.UsageOption {
		s.StreamUsage = new(bool)
	}
	s.Seed = differs(r.Seed, base.Seed)
	s.Tools = differs(r.Tools, base.Tools)
	s.Images = differs(r.Images, base.Images)
	if r.TopLogprobs != nil && *r.TopLogprobs != base.TopLogprobs && !(*r.TopLogprobs == probeLogprobs && base.TopLogprobs > probeLogprobs) {
		s.TopLogprobs = r.TopLogprobs
	}
	if s != (ProbeProfile{}) {
		r.Profile = &s
	}
}

// differs is what a profile should say of an ability, nil where it says so
// already or the probe has not shown it: a model that did not use a tool once
// may use it the next time.
func differs(found string, says bool) *bool {
	is := found == AbilityYes
	if !is && found != AbilityRefused || is == says {
		return nil
	}
	return &is
}

// Places of token counts in a response.
const (
	usageNowhere = "none"
	usageWhole   = "usage"
	// mostPlaces bounds how many are told: an endpoint names its events as it
	// likes.
	mostPlaces = 4
)

// usagePlace is where a response tells its token counts.
func usagePlace(format string, raw []byte) string {
	d, stream, err := dialectOfFormat(format)
	if err != nil {
		return usageNowhere
	}
	if !stream {
		_, start := sniff(raw, 0, true)
		if place := usageIn(raw[start:]); place != "" {
			return place
		}
		return usageNowhere
	}
	var events sseReader
	var places []string
	count, with := 0, 0
	for {
		name, data, ok := events.next(raw, true)
		if !ok {
			break
		}
		if len(data) == 0 || data[0] != '{' {
			continue
		}
		count++
		place := usageIn(data)
		if place == "" {
			continue
		}
		with++
		if _, isMessages := d.(anthropic); isMessages {
			place = string(name[:min(len(name), 64)])
		}
		if len(places) < mostPlaces && !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	switch {
	case with == 0:
		return usageNowhere
	case with > 2 && with*2 > count:
		return "every event"
	}
	return strings.Join(places, " and ")
}

// usageIn is where one object of a response tells token counts, "" where not.
func usageIn(object []byte) string {
	place, choices := "", 0
	c := walk(object)
	for c.next() {
		switch string(c.name) {
		case "usage":
			if counts(c.value) {
				place = usageWhole
			}
		case "choices":
			list := walk(c.value)
			for list.next() {
				choices++
				choice := walk(list.value)
				for choice.next() {
					if string(choice.name) == "usage" && counts(choice.value) && place == "" {
						place = "choices[0].usage"
					}
				}
			}
		case "message":
			if inner := usageIn(c.value); inner != "" && place == "" {
				place = "message." + inner
			}
		}
	}
	if place == usageWhole && choices == 0 && hasMember(object, "choices") {
		return "last event"
	}
	return place
}

func counts(usage []byte) bool {
	var t usageTally
	t.add(usage)
	return t.sent
}

func hasMember(object []byte, name string) bool {
	c := walk(object)
	for c.next() {
		if string(c.name) == name {
			return true
		}
	}
	return false
}
