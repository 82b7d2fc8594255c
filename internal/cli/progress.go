package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

const (
	// lineEvery spaces the plain progress lines.
	lineEvery = 10 * time.Second
	// rateWindow is how far back rates look.
	rateWindow = 8 * time.Second
	barWidth   = 20
)

// A progressView shows how a build stands: live bars on a terminal, plain
// lines elsewhere, nothing with --quiet.
type progressView struct {
	w        io.Writer
	live     bool
	quiet    bool
	width    func() int
	now      func() time.Time
	drawn    int // lines on the screen
	lastLine time.Time
	phase    string
	samples  []sample
	told     map[string]bool // what was told early, once
}

// A sample is what was counted at a moment, for rates.
type sample struct {
	at     time.Time
	counts map[string]wire.AskCounts
}

func newProgressView(a *app) *progressView {
	v := &progressView{w: a.err, live: a.terminal && !a.json, quiet: a.quiet, now: time.Now, width: func() int { return 100 }}
	if f, ok := a.err.(interface{ Fd() uintptr }); ok && v.live {
		v.width = func() int {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
				return w
			}
			return 100
		}
	}
	return v
}

func (v *progressView) show(p *wire.Progress) {
	if v.quiet {
		return
	}
	for i := range p.Teachers {
		// Where how many are asked depends on the answers, the plan knows the least.
		t := &p.Teachers[i]
		t.Total = max(t.Total, t.Counts.Asks)
	}
	now := v.now()
	v.remember(now, p)
	switch {
	case v.live:
		v.draw(v.lines(p))
	case v.news(p) || p.Phase != v.phase || now.Sub(v.lastLine) >= lineEvery:
		v.lastLine = now
		fmt.Fprintln(v.w, oneLine(v.plain(p)))
	}
	v.phase = p.Phase
}

// news tells whether there is something that should not wait for the next
// line: a teacher that has not answered yet and has a reason, or one that was
// given up. Each is news once.
func (v *progressView) news(p *wire.Progress) bool {
	fresh := false
	for _, t := range p.Teachers {
		key := ""
		switch {
		case t.Stopped != nil:
			key = "given up " + t.ID
		case t.Waiting != "" && !t.Done && t.Counts.New+t.Counts.Reused == 0:
			key = "waits " + t.ID
		}
		if key == "" || v.told[key] {
			continue
		}
		if v.told == nil {
			v.told = map[string]bool{}
		}
		v.told[key], fresh = true, true
	}
	return fresh
}

// end leaves the last picture where it is.
func (v *progressView) end() { v.drawn = 0 }

func (v *progressView) remember(now time.Time, p *wire.Progress) {
	s := sample{at: now, counts: map[string]wire.AskCounts{}}
	for _, t := range p.Teachers {
		s.counts[t.ID] = t.Counts
	}
	v.samples = append(v.samples, s)
	for len(v.samples) > 2 && now.Sub(v.samples[1].at) > rateWindow {
		v.samples = v.samples[1:]
	}
}

// rate is a teacher's answers and completion tokens a second.
func (v *progressView) rate(id string) (answers, tokens float64) {
	first, last := v.samples[0], v.samples[len(v.samples)-1]
	seconds := last.at.Sub(first.at).Seconds()
	if seconds <= 0 {
		return 0, 0
	}
	a, b := first.counts[id], last.counts[id]
	return max(float64(b.New-a.New)/seconds, 0), max(float64(b.CompletionTokens-a.CompletionTokens)/seconds, 0)
}

// draw replaces the picture on the screen.
func (v *progressView) draw(lines []string) {
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	width := v.width()
	for _, l := range lines {
		b.WriteString("\x1b[2K")
		b.WriteString(clip(oneLine(l), width-1))
		b.WriteByte('\n')
	}
	if len(lines) < v.drawn {
		b.WriteString("\x1b[J")
	}
	_, _ = io.WriteString(v.w, b.String())
	v.drawn = max(len(lines), 0)
}

func clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(width-1, 0)]) + "…"
}

// lines is the live picture: a head and a line for each teacher.
func (v *progressView) lines(p *wire.Progress) []string {
	out := []string{v.head(p)}
	if line := budgetLine(p.Budget); line != "" {
		out = append(out, line)
	}
	name := 8
	for _, t := range p.Teachers {
		name = max(name, min(utf8.RuneCountInString(t.ID), 28))
	}
	for _, t := range p.Teachers {
		out = append(out, v.teacherLine(p, &t, name))
	}
	return out
}

func (v *progressView) head(p *wire.Progress) string {
	elapsed := v.now().Sub(p.Started).Truncate(time.Second)
	switch {
	case p.Paused:
		why := ""
		if p.Why != "" {
			why = " (" + printable(p.Why) + ")"
		}
		return fmt.Sprintf("%s  paused%s; go on with: stillhouse resume %s", p.Dataset, why, p.BuildID)
	case p.Phase == wire.PhasePlan && p.Filtering != "":
		return fmt.Sprintf("%s  filtering %s prompts: %s  %s", p.Dataset, grouped(p.Prompts), printable(p.Filtering), elapsed)
	case p.Phase == wire.PhasePlan:
		return fmt.Sprintf("%s  reading the sources  %s", p.Dataset, elapsed)
	case p.Phase == wire.PhaseSeal:
		return fmt.Sprintf("%s  writing the tables: %s tasks, %s accepted  %s", p.Dataset, grouped(p.Tasks), grouped(p.Refined.Accepted), elapsed)
	}
	return fmt.Sprintf("%s  %s tasks, %s checked, %s accepted (%s)  %s", p.Dataset, grouped(p.Tasks),
		grouped(p.Refined.Tasks), grouped(p.Refined.Accepted), share(p.Refined.Accepted, p.Refined.Candidates), elapsed)
}

func (v *progressView) teacherLine(p *wire.Progress, t *wire.TeacherStatus, name int) string {
	done := t.Counts.New + t.Counts.Reused + t.Counts.Failed
	filled := 0
	if t.Total > 0 {
		filled = int(min(done, t.Total) * barWidth / t.Total)
	}
	answers, tokens := v.rate(t.ID)
	line := fmt.Sprintf("%-*s %s%s %s/%s", name, clip(printable(t.ID), name),
		strings.Repeat("█", filled), strings.Repeat("░", barWidth-filled), grouped(done), grouped(t.Total))
	line += fmt.Sprintf("  %5.1f/s %s tok/s", answers, grouped(int64(tokens)))
	if s := p.Refined.Share(t.ID); s.Of > 0 {
		line += "  " + share(s.Accepted, s.Of) + " ok"
	}
	if t.Counts.CachedTokens > 0 {
		line += "  " + share(t.Counts.CachedTokens, t.Counts.PromptTokens) + " cached"
	}
	if t.Counts.Reused > 0 {
		line += fmt.Sprintf("  %s reused", grouped(t.Counts.Reused))
	}
	if t.Counts.Failed > 0 {
		line += fmt.Sprintf("  %s failed", grouped(t.Counts.Failed))
	}
	if t.Counts.CostMicros > 0 {
		line += "  " + money(t.Counts.CostMicros)
	}
	switch {
	case t.Stopped != nil:
		line += "  " + stoppedAs(t.Stopped)
	case t.Done:
		line += "  done"
	default:
		if answers > 0 {
			line += "  ETA " + shortDuration(time.Duration(float64(t.Total-done)/answers*float64(time.Second)))
		}
		if t.Waiting != "" {
			line += "  " + printable(firstLine(t.Waiting))
		}
	}
	return line
}

// plain is the progress in one line, for logs.
func (v *progressView) plain(p *wire.Progress) string {
	var c wire.AskCounts
	var total int64
	var rate float64
	var waits []string
	for _, t := range p.Teachers {
		c.Add(t.Counts)
		total += t.Total
		answers, _ := v.rate(t.ID)
		rate += answers
		switch {
		case t.Stopped != nil:
			waits = append(waits, printable(t.ID)+" "+stoppedAs(t.Stopped))
		case t.Waiting != "" && !t.Done:
			waits = append(waits, printable(t.ID)+" "+printable(firstLine(t.Waiting)))
		}
	}
	line := v.head(p)
	if p.Phase == wire.PhaseAsk && total > 0 {
		line += fmt.Sprintf("  asks %s/%s, %.1f/s, %s reused, %s failed, %s", grouped(c.New+c.Reused+c.Failed), grouped(total),
			rate, grouped(c.Reused), grouped(c.Failed), money(c.CostMicros))
		if c.CachedTokens > 0 {
			line += ", " + share(c.CachedTokens, c.PromptTokens) + " cached"
		}
	}
	if b := budgetLine(p.Budget); b != "" {
		line += "  " + b
	}
	if len(waits) > 0 {
		line += "  [" + strings.Join(waits, "; ") + "]"
	}
	return line
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func share(part, of int64) string {
	if of == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(of))
}

// money writes micro-dollars.
func money(micros int64) string {
	usd := float64(micros) / 1e6
	if usd != 0 && usd < 1 {
		return fmt.Sprintf("$%.4f", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

func shortDuration(d time.Duration) string {
	d = d.Round(time.Second)
	if d >= time.Hour {
		return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// grouped writes a count with separators.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
