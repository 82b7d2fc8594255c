package workflows

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// A leaser is a worker that plays by the rules: it uses a slice until its time is
// over, replaces it by the next that reaches it, and says what it works with.
type leaser struct {
	name     string
	process  int64
	number   int64
	holds    *wire.Held
	until    time.Time // by its own clock
	inFlight int
	hungry   bool
	declared wire.Declared
	learned  wire.Declared
	base     wire.Declared
}

// ask sends a request. lost loses the answer on its way back.
func (l *leaser) ask(a *authority, now time.Time, lost bool) wire.LeaseGrant {
	if l.holds != nil && !now.Before(l.until) {
		l.holds = nil
	}
	l.number++
	r := wire.LeaseRequest{
		Worker: l.name, Process: l.process, Number: l.number, Holds: l.holds,
		InFlight: l.inFlight, Hungry: l.hungry, Declared: l.declared, Learned: l.learned, Base: l.base,
	}
	g := a.lease(now, r)
	if !lost && !g.Stale {
		l.holds = &wire.Held{Seq: g.Seq, Concurrency: g.Concurrency, RPM: g.RPM, TPM: g.TPM}
		l.until = now.Add(wire.LeaseTime)
		if n := g.Learned.Concurrency; n > 0 {
			l.learned.Concurrency = n
		}
		if n := g.Learned.RPM; n > 0 {
			l.learned.RPM = n
		}
		l.base = l.learned
	}
	return g
}

func newLeaser(name string, d wire.Declared) *leaser {
	return &leaser{name: name, process: 1, hungry: true, declared: d}
}

var start = time.Unix(1_790_000_000, 0)

func TestOneWorkerHasAllOfTheLimits(t *testing.T) {
	a := &authority{}
	g := newLeaser("w", wire.Declared{Concurrency: 30, RPM: 900}).ask(a, start, false)
	require.Equal(t, 30, g.Concurrency)
	require.Equal(t, 900.0, g.RPM)
	require.Equal(t, float64(wire.NoLimit), g.TPM)
	require.Equal(t, wire.LeaseRenew, g.Renew)
}

func TestSlicesGoWhereTheyAreNeeded(t *testing.T) {
	a := &authority{}
	d := wire.Declared{Concurrency: 30, RPM: 900, TPM: 90000}
	x, y, z := newLeaser("x", d), newLeaser("y", d), newLeaser("z", d)
	now := start
	settle := func() {
		for range 4 {
			for _, l := range []*leaser{x, y, z} {
				l.ask(a, now, false)
				now = now.Add(time.Second)
			}
		}
	}
	settle()
	for _, l := range []*leaser{x, y, z} {
		require.Equal(t, 10, l.holds.Concurrency, l.name)
		require.InDelta(t, 299, l.holds.RPM, 0.01, l.name)
		require.InDelta(t, 30000, l.holds.TPM, 0.01, l.name)
	}
	y.hungry = false // its build is paused
	settle()
	require.Zero(t, y.holds.Concurrency)
	require.InDelta(t, 0, y.holds.RPM, 0.01)
	require.Equal(t, 15, x.holds.Concurrency)
	y.inFlight = 4 // what it has in flight stays counted
	settle()
	require.Equal(t, 4, y.holds.Concurrency)
	require.Equal(t, 26, x.holds.Concurrency+z.holds.Concurrency)
}

func TestNewcomerWaitsUntilTheOthersKnow(t *testing.T) {
	a := &authority{}
	d := wire.Declared{Concurrency: 30}
	x, y := newLeaser("x", d), newLeaser("y", d)
	x.ask(a, start, false)
	g := y.ask(a, start.Add(time.Second), false)
	require.Zero(t, g.Concurrency, "x has all of it")
	require.Equal(t, wire.LeaseRenewSoon, g.Renew)
	g = x.ask(a, start.Add(2*time.Second), false)
	require.Equal(t, 15, g.Concurrency)
	require.Equal(t, wire.LeaseRenewSoon, g.Renew, "it is to say soon that it knows")
	require.Zero(t, y.ask(a, start.Add(3*time.Second), false).Concurrency, "x has not said that it knows")
	x.ask(a, start.Add(4*time.Second), false)
	require.Equal(t, 15, y.ask(a, start.Add(5*time.Second), false).Concurrency)
}

func TestDeadWorkersSliceComesBackWhenItsLeaseEnds(t *testing.T) {
	a := &authority{}
	d := wire.Declared{Concurrency: 30, RPM: 900}
	x, y := newLeaser("x", d), newLeaser("y", d)
	x.ask(a, start, false) // and dies
	for s := 1; s < 32; s++ {
		require.Zero(t, y.ask(a, start.Add(time.Duration(s)*time.Second), false).Concurrency, "second %d", s)
	}
	g := y.ask(a, start.Add(33*time.Second), false)
	require.Equal(t, 30, g.Concurrency)
	require.InDelta(t, 898, g.RPM, 0.01, "the minute still holds requests of x")
	require.InDelta(t, 900, y.ask(a, start.Add(95*time.Second), false).RPM, 0.01)
}

func TestRestartedWorkerHasItsSliceAtOnce(t *testing.T) {
	a := &authority{}
	d := wire.Declared{Concurrency: 30}
	newLeaser("x", d).ask(a, start, false)
	again := newLeaser("x", d)
	again.process = 2
	require.Equal(t, 30, again.ask(a, start.Add(time.Second), false).Concurrency)
	late := newLeaser("x", d) // a request of the dead process arrives at last
	late.number = 5
	require.True(t, late.ask(a, start.Add(2*time.Second), false).Stale)
	require.Equal(t, 30, again.ask(a, start.Add(3*time.Second), false).Concurrency)
}

// An authority that was lost with all that it knew is replaced by one that knows
// nothing: it learns from the workers what they hold, and is careful until the
// last of those leases is over.
func TestLostAuthorityIsReplacedWithCare(t *testing.T) {
	a := &authority{}
	d := wire.Declared{Concurrency: 30, RPM: 900}
	x, y := newLeaser("x", d), newLeaser("y", d)
	now := start
	for range 4 {
		x.ask(a, now, false)
		y.ask(a, now.Add(time.Second), false)
		now = now.Add(2 * time.Second)
	}
	require.Equal(t, 30, x.holds.Concurrency+y.holds.Concurrency)
	a = &authority{in: wire.LimitsInput{Seq: now.UnixMilli()}}
	z := newLeaser("z", d)
	for s := range 40 {
		now = now.Add(time.Second)
		x.ask(a, now, false)
		z.ask(a, now, false)
		if s == 9 {
			y.ask(a, now, false)
		}
		places, rate := 0, 0.0
		for _, l := range []*leaser{x, y, z} {
			if l.holds != nil && now.Before(l.until) {
				places, rate = places+l.holds.Concurrency, rate+l.holds.RPM
			}
		}
		require.LessOrEqual(t, places, 30, "second %d", s)
		require.LessOrEqual(t, rate, 900.0, "second %d", s)
	}
	require.NotZero(t, z.holds.Concurrency)
}

func TestLowestOfTheDeclaredLimitsHoldsWhileItsBuildRuns(t *testing.T) {
	a := &authority{}
	x, y := newLeaser("x", wire.Declared{RPM: 900}), newLeaser("y", wire.Declared{RPM: 300, Concurrency: 4})
	now := start
	for range 6 {
		x.ask(a, now, false)
		y.ask(a, now.Add(time.Second), false)
		now = now.Add(2 * time.Second)
	}
	require.InDelta(t, 298, x.holds.RPM+y.holds.RPM, 0.1)
	require.Equal(t, 4, x.holds.Concurrency+y.holds.Concurrency)
	a.lease(now, wire.LeaseRequest{Worker: "y", Process: 1, Number: 99, Release: true})
	x.ask(a, now, false)
	require.InDelta(t, 898, x.holds.RPM, 0.1)
	require.Equal(t, wire.NoLimit, x.holds.Concurrency)
}

func TestMoreWorkersThanPlacesTakeTurns(t *testing.T) {
	a := &authority{}
	var all []*leaser
	for i := range 5 {
		all = append(all, newLeaser(fmt.Sprint("w", i), wire.Declared{Concurrency: 2, RPM: 25}))
	}
	had, paced := map[string]bool{}, map[string]bool{}
	for s := range 400 {
		now := start.Add(time.Duration(s) * time.Second)
		places, rate := 0, 0.0
		for _, l := range all {
			l.ask(a, now, false)
			if l.holds.Concurrency > 0 {
				had[l.name] = true
			}
			if l.holds.RPM > 0 {
				paced[l.name] = true
			}
			places += l.holds.Concurrency
			rate += l.holds.RPM
		}
		require.LessOrEqual(t, places, 2)
		require.LessOrEqual(t, rate, 25.0)
	}
	require.Len(t, had, 5)
	require.Len(t, paced, 5)
}

// What each worker was taught is everybody's: one that was refused because the
// others were there gets its part, and what a worker leaves behind goes to those
// that stay.
func TestWhatIsLearnedIsShared(t *testing.T) {
	a := &authority{}
	x, y, z := newLeaser("x", wire.Declared{}), newLeaser("y", wire.Declared{}), newLeaser("z", wire.Declared{})
	x.learned, y.learned, z.learned = wire.Declared{Concurrency: 7, RPM: 600}, wire.Declared{Concurrency: 4, RPM: 290}, wire.Declared{Concurrency: 1, RPM: 10}
	now := start
	settle := func(all ...*leaser) {
		for range 3 {
			for _, l := range all {
				l.ask(a, now, false)
				now = now.Add(time.Second)
			}
		}
	}
	settle(x, y, z)
	for _, l := range []*leaser{x, y, z} {
		require.InDelta(t, 4, l.learned.Concurrency, 1, l.name)
		require.InDelta(t, 300, l.learned.RPM, 30, l.name)
	}
	require.InDelta(t, 12, a.in.Learned.Concurrency, 1)
	require.InDelta(t, 900, a.in.Learned.RPM, 1)
	require.Zero(t, x.ask(a, now, false).Learned, "what it says is its part already")
	a.lease(now, wire.LeaseRequest{Worker: "z", Process: 1, Number: 99, Release: true})
	settle(x, y)
	require.InDelta(t, 6, x.learned.Concurrency, 1)
	require.InDelta(t, 450, x.learned.RPM, 45)
	x.learned.Concurrency += 6 // it has tried more, and was not refused
	settle(x, y)
	require.InDelta(t, 9, y.learned.Concurrency, 1)
	y.learned.Concurrency -= 6 // it was refused: there is less
	settle(y, x)
	require.InDelta(t, 6, x.learned.Concurrency, 1)
	require.InDelta(t, 12, a.in.Learned.Concurrency, 1)
}

// A minute that ends in a refusal held also what workers sent that were not
// refused, whether they are later or not.
func TestLearnedRateCountsThoseThatWereNotRefused(t *testing.T) {
	a := &authority{}
	ask := func(name string, number int64, said, base, minute, used float64) wire.LeaseGrant {
		return a.lease(start.Add(time.Duration(number)*time.Second), wire.LeaseRequest{
			Worker: name, Process: 1, Number: number, Hungry: used > 0, RPM: used,
			Learned: wire.Declared{RPM: said}, Base: wire.Declared{RPM: base}, Minute: wire.Declared{RPM: minute},
		})
	}
	ask("x", 1, 0, 0, 290, 1740)
	ask("y", 2, 0, 0, 310, 1860)
	ask("z", 3, 0, 0, 300, 0) // has nothing more to send
	ask("x", 4, 300, 0, 300, 0)
	require.Equal(t, 910.0, a.in.Learned.RPM)
	ask("y", 5, 315, 0, 315, 0)
	require.Equal(t, 915.0, a.in.Learned.RPM)
	ask("x", 6, 309, 300, 0, 0) // it was raised
	require.Equal(t, 924.0, a.in.Learned.RPM)
}

// TestSumsNeverPassTheLimits plays workers that come, go, die, restart, lose
// answers, and an authority that hands over to its continuation.
func TestSumsNeverPassTheLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := wire.Declared{
			Concurrency: rapid.IntRange(1, 60).Draw(t, "concurrency"),
			RPM:         float64(rapid.IntRange(1, 2000).Draw(t, "rpm")),
			TPM:         float64(rapid.IntRange(1000, 2_000_000).Draw(t, "tpm")),
		}
		a := &authority{}
		a.in.Seq = start.UnixMilli()
		all := make([]*leaser, rapid.IntRange(1, 5).Draw(t, "workers"))
		for i := range all {
			all[i] = newLeaser(fmt.Sprint("w", i), limits)
		}
		now := start
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 12_000).Draw(t, "ms")) * time.Millisecond)
			l := all[rapid.IntRange(0, len(all)-1).Draw(t, "who")]
			switch rapid.IntRange(0, 11).Draw(t, "what") {
			case 0: // it dies and comes back: what it had in flight is gone
				*l = *newLeaser(l.name, limits)
				l.process = now.UnixMilli()
			case 1:
				l.hungry = !l.hungry
			case 2: // continue as new
				var carried wire.LimitsInput
				text, err := json.Marshal(a.carry())
				if err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(text, &carried); err != nil {
					t.Fatal(err)
				}
				a = &authority{in: carried}
			case 3:
				l.ask(a, now, true)
			case 4:
				if l.inFlight = 0; l.holds != nil {
					l.number++
					a.lease(now, wire.LeaseRequest{Worker: l.name, Process: l.process, Number: l.number, Release: true})
					l.holds = nil
				}
			default:
				l.ask(a, now, false)
			}
			places, rate, tokens := 0, 0.0, 0.0
			for _, l := range all {
				if l.holds != nil && !now.Before(l.until) {
					l.holds = nil
				}
				if l.holds != nil {
					l.inFlight = min(l.inFlight, l.holds.Concurrency)
					places += l.holds.Concurrency
					rate += l.holds.RPM
					tokens += l.holds.TPM
				}
			}
			if places > limits.Concurrency || rate > limits.RPM+1e-6 || tokens > limits.TPM+1e-6 {
				t.Fatalf("%d places, %g rpm, %g tpm; the limits are %+v", places, rate, tokens, limits)
			}
		}
		// Whatever happened, a while later those who want have all of it, but for
		// the moments in which turns pass from one to the next.
		places, tokens, rate := 0, 0.0, 0.0
		for range 150 {
			now = now.Add(time.Second)
			p, n, r := 0, 0.0, 0.0
			for _, l := range all {
				l.hungry = true
				l.ask(a, now, false)
				p, n, r = p+l.holds.Concurrency, n+l.holds.TPM, r+l.holds.RPM
			}
			places, tokens, rate = max(places, p), max(tokens, n), max(rate, r)
		}
		if places != limits.Concurrency || tokens < 0.99*limits.TPM {
			t.Fatalf("%d places of %d and %g tpm of %g are used at the end", places, limits.Concurrency, tokens, limits.TPM)
		}
		if rate < limits.RPM-2*float64(len(all))-1 {
			t.Fatalf("%g rpm of %g are used at the end", rate, limits.RPM)
		}
	})
}

func TestCarryIsOneSmallPayload(t *testing.T) {
	a := &authority{in: wire.LimitsInput{Model: fill(200), Seq: start.UnixMilli()}}
	d := wire.Declared{Concurrency: 65536, RPM: 123456, TPM: 1.23456789e9}
	for i := range wire.MaxLessees {
		l := newLeaser(fmt.Sprintf("%s%02d", fill(wire.MaxLesseeName-2), i), d)
		l.process = start.UnixMilli()
		l.number, l.inFlight = 1e6, 60000
		for range 3 {
			l.ask(a, start, false)
		}
	}
	text, err := json.Marshal(a.carry())
	require.NoError(t, err)
	t.Logf("%d bytes with %d workers", len(text), wire.MaxLessees)
	require.LessOrEqual(t, len(text), wire.MaxPayload)
	require.Error(t, a.check(wire.LeaseRequest{Worker: "one more"}))
}

func TestRequestsThatAreNoneAreRefused(t *testing.T) {
	a := &authority{}
	for _, r := range []wire.LeaseRequest{
		{}, {Worker: fill(wire.MaxLesseeName + 1)}, {Worker: "w", InFlight: -1}, {Worker: "w", RPM: math.NaN()},
		{Worker: "w", TPM: math.Inf(1)}, {Worker: "w", Declared: wire.Declared{RPM: -3}}, {Worker: "w", Holds: &wire.Held{RPM: math.Inf(1)}},
	} {
		require.Error(t, a.check(r), "%+v", r)
	}
	require.NoError(t, a.check(wire.LeaseRequest{Worker: "w", Holds: &wire.Held{Concurrency: wire.NoLimit, RPM: wire.NoLimit, TPM: wire.NoLimit}}))
}

// lease updates the running workflow of a test environment.
func leaseOf(t *testing.T, env *testsuite.TestWorkflowEnvironment, r wire.LeaseRequest, then func(wire.LeaseGrant)) {
	env.UpdateWorkflow(wire.UpdateLease, "", &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { t.Errorf("rejected: %v", err) },
		OnComplete: func(v any, err error) {
			require.NoError(t, err)
			then(v.(wire.LeaseGrant))
		},
	}, r)
}

func TestAuthorityEndsWhenNobodyLeases(t *testing.T) {
	for name, c := range map[string]struct {
		declared wire.Declared
		release  bool
		within   time.Duration
	}{
		"given back":              {wire.Declared{Concurrency: 8}, true, 2 * time.Second},
		"given back, with a rate": {wire.Declared{RPM: 60}, true, 2 * limitsIdle},
		"never given back":        {wire.Declared{Concurrency: 8, RPM: 60}, false, 4 * limitsIdle},
	} {
		t.Run(name, func(t *testing.T) {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			began := env.Now()
			env.RegisterDelayedCallback(func() {
				leaseOf(t, env, wire.LeaseRequest{Worker: "w", Process: 1, Number: 1, Hungry: true, Declared: c.declared}, func(g wire.LeaseGrant) {
					require.NotZero(t, g.Seq)
				})
			}, 0)
			if c.release {
				env.RegisterDelayedCallback(func() {
					leaseOf(t, env, wire.LeaseRequest{Worker: "w", Process: 1, Number: 2, Release: true}, func(wire.LeaseGrant) {})
				}, time.Second)
			}
			env.ExecuteWorkflow(EndpointLimits, wire.LimitsInput{Model: "m"})
			require.NoError(t, env.GetWorkflowError())
			require.LessOrEqual(t, env.Now().Sub(began), c.within)
		})
	}
}

func TestAuthorityContinuesAsNewWithWhatIsHeld(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	number := int64(0)
	var renew func()
	renew = func() {
		number++
		leaseOf(t, env, wire.LeaseRequest{Worker: "w", Process: 1, Number: number, Hungry: true, Declared: wire.Declared{Concurrency: 8}}, func(wire.LeaseGrant) {})
		if number < limitsEvery {
			env.RegisterDelayedCallback(renew, wire.LeaseRenew)
		}
	}
	env.RegisterDelayedCallback(renew, 0)
	env.ExecuteWorkflow(EndpointLimits, wire.LimitsInput{Model: "m"})
	err := env.GetWorkflowError()
	require.ErrorContains(t, err, "continue as new")
	require.Equal(t, int64(limitsEvery), number)
}
