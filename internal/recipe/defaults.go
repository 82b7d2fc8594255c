package recipe

import "strings"

// fillDefaults gives absent keys the meaning that depends on other keys; the
// plain ones are declared beside their fields.
func (r *Recipe) fillDefaults() {
	for i := range r.Prompts {
		p := &r.Prompts[i]
		if p.Fields.Domain != "" {
			p.Domain = ""
		}
		if p.Fields.Effort == "" && p.Efforts == nil {
			p.Efforts = []string{DefaultName}
		}
	}
	for i := range r.Teachers {
		r.Teachers[i].fillDefaults()
		r.fillBatch(i)
	}
	r.makeRoomForLogprobs()
	if r.Filter == nil {
		r.Filter = []FilterStep{{Name: "finish"}}
	}
	if r.Merge.PerTask == 0 && r.choosesOne() {
		r.Merge.PerTask = 1
	}
	if r.Output.Splits == nil {
		r.Output.Splits = map[string]float64{"train": 1}
	}
}

func (t *Teacher) fillDefaults() {
	if t.ID == "" {
		t.ID = idOf(t.Model)
	}
	if t.API == APIRecorded && t.Model == "" {
		t.Model = t.ID
	}
	t.BaseURL = strings.TrimRight(t.BaseURL, "/")
	if p := t.Price; p != nil {
		if p.CachedInput == nil {
			p.CachedInput = &p.Input
		}
		if p.CacheWrite == nil {
			p.CacheWrite = &p.Input
		}
	}
}

// idOf makes an id of a model's name, such as Qwen-Qwen3-8B of Qwen/Qwen3-8B.
func idOf(model string) string {
	id := strings.Map(func(r rune) rune {
		if idRune(r) {
			return r
		}
		return '-'
	}, model)
	if len(id) > maxID {
		id = strings.ToValidUTF8(id[:maxID], "")
	}
	return id
}
