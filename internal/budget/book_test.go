package budget

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func month(micros int64) *int64 { return &micros }

// opened is a book with one build open.
func opened(limits Limits) *Book {
	b := &Book{}
	b.Open(noon, Open{Job: "j", Build: "b1", Limits: limits})
	return b
}

// say sends a request of a worker in the open account.
func (b *Book) say(at time.Time, worker string, seq int64, pockets ...Pocket) Reply {
	return b.Lease(at, Request{Worker: worker, Period: b.Period, Seq: seq, Pockets: pockets})
}

func left(b *Book) int64 { return b.Lines()[0].Left() }

func TestMicros(t *testing.T) {
	for _, tc := range []struct {
		usd  float64
		want int64
	}{
		{0, 0}, {1, 1_000_000}, {0.1, 100_000}, {0.29, 290_000}, {1.1, 1_100_000}, {250, 250_000_000}, {0.000001, 1},
		{0.0000019, 1}, {0.0000009, 0}, {-1, 0}, {1e12, 1e15}, {123456.789012, 123456789012},
	} {
		if got := Micros(tc.usd); got != tc.want {
			t.Errorf("%v dollars are %d micro-dollars, want %d", tc.usd, got, tc.want)
		}
	}
}

func TestDollars(t *testing.T) {
	for micros, want := range map[int64]string{0: "$0.00", 1: "$0.000001", 500_000: "$0.50", 1_234_500: "$1.2345", 250_000_000: "$250.00", -10: "-$0.00001"} {
		if got := Dollars(micros); got != want {
			t.Errorf("%d: %s, want %s", micros, got, want)
		}
	}
}

func TestANeedIsGrantedWholeOrNotAtAll(t *testing.T) {
	b := opened(Limits{Build: 1000})
	if r := b.say(noon, "w1", 1, Pocket{Need: 600, Want: 600}); r.Loans[0].Granted != 600 || r.Loans[0].Denied != nil {
		t.Fatalf("%+v", r)
	}
	r := b.say(noon, "w2", 1, Pocket{Need: 500, Want: 900})
	if l := r.Loans[0]; l.Granted != 0 || l.Denied == nil || l.Over || !r.Tight {
		t.Fatalf("%+v", r)
	}
	// Once the first has spent it, nothing can come back.
	b.say(noon, "w1", 2, Pocket{Spent: 600})
	r = b.say(noon, "w2", 2, Pocket{Need: 500, Want: 900})
	if l := r.Loans[0]; !l.Over || l.Denied.Left() != 400 || l.Denied.Spent != 600 {
		t.Fatalf("%+v %+v", r, r.Loans[0].Denied)
	}
	if r = b.say(noon, "w2", 3, Pocket{Need: 400}); r.Loans[0].Granted != 400 || r.Loans[0].Over {
		t.Fatalf("%+v", r)
	}
}

func TestNothingIsOverWhileSomethingIsUnderWay(t *testing.T) {
	b := opened(Limits{Build: 1000})
	b.say(noon, "w1", 1, Pocket{Need: 900})
	b.say(noon, "w1", 2, Pocket{Held: 900})
	if l := b.say(noon, "w2", 1, Pocket{Need: 200}).Loans[0]; l.Denied == nil || l.Over {
		t.Errorf("over while another worker has an ask under way: %+v", l)
	}
	if l := b.say(noon, "w1", 3, Pocket{Held: 900, Need: 200}).Loans[0]; l.Denied == nil || l.Over {
		t.Errorf("over while the worker itself has: %+v", l)
	}
	// A worker that is silent for longer than a lease is not waited for, and what
	// it has on loan stays charged.
	later := noon.Add(LeaseFor + 2*time.Second)
	if l := b.say(later, "w2", 2, Pocket{Need: 200}).Loans[0]; !l.Over || left(b) != 100 {
		t.Errorf("%+v, %d left", l, left(b))
	}
	// When it comes back, what it did not spend is there again.
	b.say(later, "w1", 4, Pocket{Spent: 100})
	if l := b.say(later, "w2", 3, Pocket{Need: 200}).Loans[0]; l.Granted != 200 {
		t.Errorf("%+v", l)
	}
}

func TestTeachersHaveBudgetsOfTheirOwn(t *testing.T) {
	b := opened(Limits{Build: 1000, Teachers: []TeacherLimit{{"b", 300}, {"a", 200}}})
	r := b.say(noon, "w", 1, Pocket{Need: 500}, Pocket{Pocket: "a", Need: 150}, Pocket{Pocket: "b", Need: 350})
	if r.Loans[0].Granted != 500 || r.Loans[1].Granted != 150 || r.Loans[2].Denied == nil {
		t.Fatalf("%+v", r.Loans)
	}
	if d := r.Loans[2].Denied; d.Kind != LineTeacher || d.Teacher != "b" || d.Limit != 300 {
		t.Errorf("%+v", d)
	}
	if !r.Loans[2].Over {
		t.Error("what others have under way leaves nothing for this teacher's own limit")
	}
	// The build's limit holds for teachers with limits too.
	r = b.say(noon, "w", 2, Pocket{Spent: 500}, Pocket{Pocket: "a", Spent: 150}, Pocket{Pocket: "b", Need: 300})
	if r.Loans[2].Granted != 300 {
		t.Fatalf("%+v", r.Loans)
	}
	r = b.say(noon, "w", 3, Pocket{Spent: 500, Need: 100}, Pocket{Pocket: "a", Spent: 150}, Pocket{Pocket: "b", Spent: 300})
	if d := r.Loans[0].Denied; d == nil || d.Kind != LineBuild || d.Left() != 50 {
		t.Errorf("%+v", r.Loans[0])
	}
}

func TestAMonthOutlivesBuilds(t *testing.T) {
	limits := Limits{Build: 1000, Month: month(1500)}
	b := opened(limits)
	b.say(noon, "w", 1, Pocket{Need: 900})
	b.say(noon, "w", 2, Pocket{Spent: 900})
	b.Close(noon, Close{Job: "j", Build: "b1", Complete: true})
	if b.Period != 0 {
		t.Fatal("a complete build leaves its account open")
	}
	b.Open(noon, Open{Job: "j", Build: "b2", Limits: limits})
	if r := b.Lease(noon, Request{Worker: "w", Period: 1, Seq: 3}); !r.Begin {
		t.Fatalf("counts of an account that has ended are taken for this one's: %+v", r)
	}
	if d := b.say(noon, "w", 4, Pocket{Need: 700}).Loans[0].Denied; d == nil || d.Kind != LineMonth || d.Left() != 600 {
		t.Fatalf("%+v", d)
	}
	b.say(noon, "w", 5, Pocket{Need: 600})
	b.say(noon, "w", 6, Pocket{Spent: 500, Held: 100})
	// On the first of December all of it is there again, but for what is under way.
	december := time.Date(2026, 12, 1, 0, 0, 1, 0, time.UTC)
	r := b.say(december, "w", 7, Pocket{Spent: 500, Held: 100, Need: 400})
	if r.Loans[0].Granted != 1000 {
		t.Fatalf("%+v", r.Loans)
	}
	if l := b.Lines()[1]; l.Kind != LineMonth || l.Spent != 0 || l.Held != 500 {
		t.Errorf("%+v", l)
	}
	// A clock that goes back does not bring the old month back.
	b.say(noon, "w", 8, Pocket{Spent: 1000})
	if b.Month != "2026-12" {
		t.Errorf("month %s", b.Month)
	}
}

func TestAnAccountGoesOnUntilABuildIsComplete(t *testing.T) {
	b := opened(Limits{Build: 1000})
	b.say(noon, "w", 1, Pocket{Need: 1000})
	b.say(noon, "w", 2, Pocket{Spent: 990})
	b.Close(noon, Close{Job: "j", Build: "b1"})
	first := b.Period
	// The next run, also of a changed recipe, finds the money spent.
	b.Open(noon, Open{Job: "j2", Build: "b2", Limits: Limits{Build: 1000}})
	if b.Period != first || left(b) != 10 {
		t.Errorf("%d left", left(b))
	}
	// A larger budget buys the rest.
	b.Open(noon, Open{Job: "j2", Build: "b3", Limits: Limits{Build: 1500}})
	if left(b) != 510 {
		t.Errorf("%d left of a larger budget", left(b))
	}
	// A build that ends while another is open ends no account.
	b.Open(noon, Open{Job: "j4", Build: "b4", Limits: Limits{Build: 1500}})
	b.Close(noon, Close{Job: "j2", Build: "b3", Complete: true})
	if b.Period != first {
		t.Error("the account ended under an open build")
	}
	b.Close(noon, Close{Job: "j4", Build: "b4", Complete: true})
	if b.Period != 0 || len(b.Jobs) != 0 || len(b.Wallets) != 0 {
		t.Errorf("%+v", b)
	}
}

func TestARunOfAScheduleSpendsItsOwnBudget(t *testing.T) {
	b := opened(Limits{Build: 1000})
	b.say(noon, "w", 1, Pocket{Need: 1000})
	b.say(noon, "w", 2, Pocket{Spent: 1000})
	again := Open{Job: "scheduled", Build: "b2", Limits: Limits{Build: 1000}, Anew: true}
	if b.Open(noon, again); left(b) != 0 {
		t.Errorf("%d left while another build is open", left(b))
	}
	b.Close(noon, Close{Job: "j", Build: "b1"})
	again.Build = "b3" // b2 was terminated: the schedule starts no run beside another
	if b.Open(noon, again); left(b) != 1000 {
		t.Errorf("%d left", left(b))
	}
	b.say(noon, "w", 3, Pocket{Need: 600})
	// Its plan is made twice.
	if b.Open(noon, again); left(b) != 400 {
		t.Errorf("%d left after the same build was opened again", left(b))
	}
}

func TestOvertakenRequestsAreIgnored(t *testing.T) {
	b := opened(Limits{Build: 1000})
	b.say(noon, "w", 2, Pocket{Need: 700})
	// An older request, which gave everything back, comes late.
	// The last one may come twice.
	if r := b.say(noon, "w", 2, Pocket{Need: 700}); len(r.Loans) != 1 || r.Loans[0].Granted != 700 || left(b) != 300 {
		t.Errorf("%+v, %d left", r, left(b))
	}
	// But not with other counts.
	if r := b.say(noon, "w", 2, Pocket{Spent: 5}); len(r.Loans) != 0 || r.Seq != 2 {
		t.Errorf("%+v", r)
	}
	if r := b.say(noon, "w", 1, Pocket{}); len(r.Loans) != 0 || r.Seq != 2 || left(b) != 300 {
		t.Errorf("%+v, %d left", r, left(b))
	}
}

func TestALostBookTakesOver(t *testing.T) {
	b := opened(Limits{Build: 1000})
	r := b.Lease(noon, Request{Worker: "w", Period: b.Period - 5, Seq: 9, Pockets: []Pocket{{Spent: 800, Need: 300}}})
	if r.Begin || r.Period != b.Period || r.Loans[0].Denied == nil || left(b) != 200 {
		t.Errorf("%+v, %d left", r, left(b))
	}
}

func TestAWalletThatKnowsNothingHasSpentItsLoan(t *testing.T) {
	b := opened(Limits{Build: 1000})
	b.say(noon, "w", 1, Pocket{Need: 300})
	if r := b.Lease(noon, Request{Worker: "w", Seq: 1}); !r.Begin || left(b) != 700 {
		t.Errorf("%+v, %d left", r, left(b))
	}
	if s := b.Status(); s.Lost != 300 || !s.Open || s.Lines[0].Spent != 300 {
		t.Errorf("%+v", s)
	}
}

func TestCrashesUseUpNoMoreThanTheirShare(t *testing.T) {
	b := opened(Limits{Build: 1_000_000})
	first := b.say(noon, "w", 1, Pocket{}).HeldMost
	if first != 120_000 {
		t.Fatalf("%d may be under way at first", first)
	}
	lost := int64(0)
	for seq := range int64(30) {
		most := b.Lease(noon, Request{Worker: "w", Period: b.Period, Seq: seq + 2, Lost: lost, Pockets: []Pocket{{Spent: lost}}}).HeldMost
		lost += most
	}
	if lost > 160_000 {
		t.Errorf("%d of 1,000,000 were lost", lost)
	}
	// Two workers share it.
	b = opened(Limits{Build: 1_000_000})
	b.say(noon, "w1", 1)
	if most := b.say(noon, "w2", 1).HeldMost; most != 60_000 {
		t.Errorf("%d may be under way at one of two workers", most)
	}
}

func TestABookIsOneSmallPayload(t *testing.T) {
	limits := Limits{Build: MaxUSD * 1e6, Month: month(MaxUSD * 1e6)}
	for i := range 40 {
		limits.Teachers = append(limits.Teachers, TeacherLimit{fmt.Sprintf("%02d%s", i, strings.Repeat("é", 31)), MaxUSD * 1e6})
	}
	b := opened(limits)
	admitted := 0
	for i := range 200 {
		r := Request{Worker: fmt.Sprintf("w-%026d", i), Period: b.Period, Seq: 1}
		for _, l := range limits.Teachers {
			r.Pockets = append(r.Pockets, Pocket{Pocket: l.Teacher, Spent: 1e12, Need: 1e11})
		}
		if !b.Lease(noon, r).Crowded {
			admitted++
		}
	}
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 16<<10 || admitted < 4 {
		t.Errorf("%d workers in %d bytes", admitted, len(text))
	}
	t.Logf("%d workers in %d bytes", admitted, len(text))
	for i := range 100 {
		b.Open(noon.Add(time.Duration(i)*time.Second), Open{Job: fmt.Sprint(i), Build: fmt.Sprint(i), Limits: limits})
	}
	if len(b.Jobs) > mostJobs {
		t.Errorf("%d jobs", len(b.Jobs))
	}
}

func TestForgottenWalletsStayCharged(t *testing.T) {
	b := opened(Limits{Build: 1000, Month: month(1000)})
	b.say(noon, "gone", 1, Pocket{Need: 400})
	later := noon.Add(forgetWallet + time.Hour)
	b.say(later, "new", 1, Pocket{Need: 100})
	if len(b.Wallets) != 1 || left(b) != 500 {
		t.Errorf("%d wallets, %d left", len(b.Wallets), left(b))
	}
}

// TestBookText carries arbitrary books through their text.
func TestBookText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBook(t)
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > b.size() {
			t.Fatalf("%d bytes, bounded by %d: %s", len(text), b.size(), text)
		}
		var got Book
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if d := cmp.Diff(*b, got); d != "" {
			t.Fatalf("%s\n%s", text, d)
		}
	})
}

// TestLoansNeverPassALimit sends arbitrary requests, of workers that keep no
// rule but that of their loans, and adds up what may be spent.
func TestLoansNeverPassALimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { drawBook(t) })
}

// drawBook plays some requests of some workers against a new book.
func drawBook(t *rapid.T) *Book {
	limits := Limits{Build: rapid.Int64Range(0, 1e6).Draw(t, "build")}
	for _, id := range []string{"a", "b"} {
		if rapid.Bool().Draw(t, "limited "+id) {
			limits.Teachers = append(limits.Teachers, TeacherLimit{id, rapid.Int64Range(0, 1e6).Draw(t, id)})
		}
	}
	if rapid.Bool().Draw(t, "monthly") {
		limits.Month = month(rapid.Int64Range(0, 1e6).Draw(t, "month"))
	}
	b := opened(limits)
	now := noon
	type key struct{ worker, pocket string }
	granted, spent := map[key]int64{}, map[key]int64{}
	for seq := range rapid.Int64Range(0, 30).Draw(t, "requests") {
		now = now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "seconds")) * time.Second)
		worker := fmt.Sprintf("w%d", rapid.IntRange(0, 3).Draw(t, "worker"))
		r := Request{Worker: worker, Period: b.Period, Seq: seq + 1}
		pockets := []string{""}
		for _, l := range limits.Teachers {
			pockets = append(pockets, l.Teacher)
		}
		for _, pocket := range pockets {
			k := key{worker, pocket}
			unspent := granted[k] - spent[k]
			use := rapid.Int64Range(0, unspent).Draw(t, "spend")
			spent[k] += use
			held := rapid.Int64Range(0, unspent-use).Draw(t, "hold")
			r.Pockets = append(r.Pockets, Pocket{
				Pocket: pocket, Spent: spent[k], Held: held, Keep: rapid.Int64Range(0, 2*(unspent-use-held)).Draw(t, "keep"),
				Need: rapid.Int64Range(0, 1e5).Draw(t, "need"), Want: rapid.Int64Range(0, 1e6).Draw(t, "want"),
			})
		}
		reply := b.Lease(now, r)
		for _, l := range reply.Loans {
			k := key{worker, l.Pocket}
			if l.Granted < spent[k] {
				t.Fatalf("%v: %d granted, %d spent", k, l.Granted, spent[k])
			}
			granted[k] = l.Granted
		}
		sums := map[string]int64{}
		for k, g := range granted {
			sums["all"] += g
			sums[k.pocket] += g
		}
		if sums["all"] > limits.Build || limits.Month != nil && now.Month() == noon.Month() && sums["all"] > *limits.Month {
			t.Fatalf("%d granted of %+v", sums["all"], limits)
		}
		for _, l := range limits.Teachers {
			if sums[l.Teacher] > l.Micros {
				t.Fatalf("teacher %s: %d granted of %d", l.Teacher, sums[l.Teacher], l.Micros)
			}
		}
		for _, line := range b.Lines() {
			if line.Spent+line.Held > line.Limit {
				t.Fatalf("%+v", line)
			}
		}
	}
	return b
}

// A batch that was reserved in one month and settled in the next gives nothing
// to the next.
func TestWhatComesBackOfAnEarlierMonthIsNotThisMonths(t *testing.T) {
	b := opened(Limits{Build: 10_000, Month: month(1000)})
	b.say(noon, "w1", 1, Pocket{Need: 900})
	b.say(noon, "w1", 2, Pocket{Spent: 900})
	if l := b.Lines()[1]; l.Spent != 900 {
		t.Fatalf("%+v", l)
	}
	next := noon.Add(24 * time.Hour)
	r := b.say(next, "w1", 3, Pocket{Spent: 10, Need: 1500})
	if l := b.Lines()[1]; l.Spent != 0 || l.Left() != 1000 || r.Loans[0].Denied == nil {
		t.Errorf("%+v of the new month's 1,000, lent %+v", l, r.Loans[0])
	}
	if l := b.Lines()[0]; l.Spent != 10 {
		t.Errorf("%+v", l)
	}
	b.say(next, "w1", 4, Pocket{Spent: 10, Need: 400})
	b.say(next, "w1", 5, Pocket{Spent: 410})
	if l := b.Lines()[1]; l.Spent != 400 {
		t.Errorf("%+v, and 400 are spent in it", l)
	}
	// Within a month a wallet may settle what another has reserved.
	b.say(next, "w2", 1, Pocket{Need: 500})
	b.say(next, "w2", 2, Pocket{Spent: 500})
	b.say(next, "w3", 1, Pocket{Spent: -450})
	if l := b.Lines()[1]; l.Spent != 450 {
		t.Errorf("%+v, and 450 are spent in it", l)
	}
}
