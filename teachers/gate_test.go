package teachers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// newTestGate is a gate with the limits of one teacher.
func newTestGate(d Declared) (*gate, *permits) {
	p := &permits{declared: d}
	g := &gate{members: map[*permits]struct{}{p: {}}, places: newConcurrency(0)}
	return g, p
}

// A played is a request that a gate let go.
type played struct {
	at     time.Time
	tokens float64
}

// mostInMinute is the most of any minute.
func mostInMinute(list []played, of func(played) float64) float64 {
	most, sum, from := 0.0, 0.0, 0
	for i := range list {
		sum += of(list[i])
		for list[i].at.Sub(list[from].at) >= time.Minute {
			sum -= of(list[from])
			from++
		}
		most = max(most, sum)
	}
	return most
}

func one(played) float64      { return 1 }
func tokens(p played) float64 { return p.tokens }

// play runs asks through a gate for a while: as many wait at any time as there
// may be, and the clock goes from one event to the next.
func play(t rapid.TB, g *gate, p *permits, now time.Time, lasts time.Duration, needs func() float64, takes func() time.Duration, spent func(float64) float64) []played {
	type flight struct {
		turn *turn
		ends time.Time
	}
	var out []played
	var flying []flight
	end := now.Add(lasts)
	next := &turn{client: p, tokens: needs(), index: -1}
	for now.Before(end) {
		g.ran(now, p)
		b := g.blocked(now, next)
		if b.by == byNothing {
			g.tickets++
			next.ticket = g.tickets
			g.admit(now, next)
			flying = append(flying, flight{next, now.Add(takes())})
			out = append(out, played{now, spent(next.tokens)})
			next = &turn{client: p, tokens: needs(), index: -1}
			continue
		}
		if b.wait <= 0 {
			t.Fatalf("blocked by %d for %s", b.by, b.wait)
		}
		wake := now.Add(min(b.wait, time.Minute))
		for _, f := range flying {
			if f.ends.Before(wake) {
				wake = f.ends
			}
		}
		now = wake
		flying = slices.DeleteFunc(flying, func(f flight) bool {
			if f.ends.After(now) {
				return false
			}
			g.over(now, f.turn, outcome{answered: true, counted: true, tokens: spent(f.turn.tokens)})
			g.release(f.turn)
			return true
		})
	}
	return out
}

// TestNoMinuteHoldsMoreThanItsAllowance plays every kind of limit and load: in no
// minute, wherever it begins, are there more requests or tokens than declared,
// and nearly all is used.
func TestNoMinuteHoldsMoreThanItsAllowance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Declared{RPM: float64(rapid.IntRange(1, 6000).Draw(t, "rpm"))}
		need := 0.0
		if rapid.Bool().Draw(t, "with tokens") {
			d.TPM = float64(rapid.IntRange(1000, 1_000_000).Draw(t, "tpm"))
			need = d.TPM * rapid.Float64Range(0.0002, 0.4).Draw(t, "need")
		}
		g, p := newTestGate(d)
		draw := rapid.Int64Range(0, int64(30*time.Second))
		calm := rapid.Bool().Draw(t, "calm")
		list := play(t, g, p, time.Unix(1000, 0), 5*time.Minute,
			func() float64 {
				if calm || need == 0 {
					return need
				}
				return need * rapid.Float64Range(0.1, 1).Draw(t, "part")
			},
			func() time.Duration {
				if calm {
					return time.Millisecond
				}
				return time.Duration(draw.Draw(t, "takes")) / 1000
			},
			func(f float64) float64 { return f })
		if got := mostInMinute(list, one); got > d.RPM {
			t.Fatalf("%v requests in a minute, want at most %v", got, d.RPM)
		}
		if got := mostInMinute(list, tokens); d.TPM > 0 && got > d.TPM+1e-6 {
			t.Fatalf("%v tokens in a minute, want at most %v", got, d.TPM)
		}
	})
}

func TestAllowancesAreUsed(t *testing.T) {
	for _, c := range []struct {
		declared Declared
		need     float64
		takes    time.Duration
	}{
		{Declared{RPM: 60}, 0, 2 * time.Second},
		{Declared{RPM: 3000}, 0, 2 * time.Second},
		{Declared{TPM: 100_000}, 1000, time.Second},
		{Declared{TPM: 2_000_000}, 4000, time.Second},
		{Declared{RPM: 600, TPM: 300_000}, 500, time.Second},
		{Declared{RPM: 600, TPM: 60_000}, 500, time.Second},
	} {
		t.Run(fmt.Sprint(c.declared, c.need), func(t *testing.T) {
			c.declared.Concurrency = 500
			g, p := newTestGate(c.declared)
			const minutes = 5
			list := play(t, g, p, time.Unix(1000, 0), minutes*time.Minute, func() float64 { return c.need }, func() time.Duration { return c.takes }, func(f float64) float64 { return f })
			used, sum := float64(len(list))/minutes/c.declared.RPM, 0.0
			for _, l := range list {
				sum += l.tokens
			}
			if c.declared.TPM > 0 {
				used = max(used*min(c.declared.RPM, 1), sum/minutes/c.declared.TPM)
			}
			if used < 0.95 {
				t.Errorf("%.1f %% used", 100*used)
			}
		})
	}
}

// Tokens are reserved by an estimate and settled: a wrong one costs nothing for
// long, neither too much nor too little.
func TestWrongEstimatesAreSettled(t *testing.T) {
	for _, factor := range []float64{0.25, 1, 3} {
		g, p := newTestGate(Declared{TPM: 600_000, Concurrency: 500})
		list := play(t, g, p, time.Unix(1000, 0), 10*time.Minute, func() float64 { return 1000 }, func() time.Duration { return 5 * time.Second },
			func(f float64) float64 { return factor * f })
		list = slices.DeleteFunc(list, func(p played) bool { return p.at.Before(time.Unix(1000+120, 0)) })
		sum := 0.0
		for _, l := range list {
			sum += l.tokens
		}
		if perMinute := sum / 8; perMinute > 600_000 || perMinute < 0.9*600_000 {
			t.Errorf("answers of %v times what was expected: %.0f tokens a minute, want 540,000 to 600,000", factor, perMinute)
		}
	}
}

// A request of a fixed window's server is refused when the window is used up;
// the pace is learned from that.
func TestRatesAreLearned(t *testing.T) {
	for _, c := range []struct {
		name     string
		rpm, tpm float64
	}{{"requests", 600, 0}, {"tokens", 0, 300_000}} {
		t.Run(c.name, func(t *testing.T) {
			g, p := newTestGate(Declared{})
			g.places.limit = 32
			now := time.Unix(1000, 0)
			window, requests, used := now, 0.0, 0.0
			type flight struct {
				turn *turn
				ends time.Time
			}
			var flying []flight
			sent, refused, accepted := 0, 0, 0
			const minutes = 12
			for end := now.Add(minutes * time.Minute); now.Before(end); {
				g.ran(now, p)
				next := &turn{client: p, tokens: 500, index: -1}
				b := g.blocked(now, next)
				if b.by != byNothing {
					wake := now.Add(min(max(b.wait, time.Microsecond), time.Minute))
					for _, f := range flying {
						if f.ends.Before(wake) {
							wake = f.ends
						}
					}
					now = wake
					flying = slices.DeleteFunc(flying, func(f flight) bool {
						if f.ends.After(now) {
							return false
						}
						used += 500
						g.over(now, f.turn, outcome{answered: true, counted: true, tokens: 500})
						g.release(f.turn)
						return true
					})
					continue
				}
				g.admit(now, next)
				sent++
				if now.Sub(window) >= time.Minute {
					window, requests, used = now, 0, 0
				}
				if c.rpm > 0 && requests >= c.rpm || c.tpm > 0 && used >= c.tpm {
					refused++
					o := outcome{overload: true, reason: reasonRequests, why: "429", closed: window.Add(time.Minute).Sub(now)}
					if c.tpm > 0 {
						o.reason = reasonTokens
					}
					now = now.Add(time.Millisecond)
					g.over(now, next, o)
					g.release(next)
					continue
				}
				requests++
				accepted++
				flying = append(flying, flight{next, now.Add(time.Second)})
			}
			allowed := minutes * 600.0
			share, lost := float64(accepted)/allowed, float64(refused)/float64(sent)
			t.Logf("%.1f %% used, %.2f %% refused", 100*share, 100*lost)
			if share < 0.9 || lost > 0.02 {
				t.Errorf("%.1f %% used, want 90; %.2f %% refused, want less than 2", 100*share, 100*lost)
			}
		})
	}
}
