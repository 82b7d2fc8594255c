package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func TestEpochsOfNobody(t *testing.T) {
	c := Open(mem.New("t"))
	e, err := c.Epochs(context.Background(), "d")
	if err != nil || len(e.Teachers) != 0 || e.Of(TeacherKey{}) != nil {
		t.Errorf("%+v %v", e, err)
	}
	if _, err := c.Epochs(context.Background(), "../d"); !errors.Is(err, ErrInvalid) {
		t.Errorf("%v", err)
	}
}

func TestEpochsAreChangedInOneStep(t *testing.T) {
	c := Open(mem.New("t"))
	key := TeacherKey{Endpoint: "e", Model: "m", Epoch: 2}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := c.ChangeEpochs(context.Background(), "d", func(e *Epochs) bool {
				e.Add(key, fmt.Sprint("t", i)).Refreshes++
				return true
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	e, err := c.Epochs(context.Background(), "d")
	if err != nil {
		t.Fatal(err)
	}
	if got := e.Of(key); got == nil || got.Refreshes != 8 || len(e.Teachers) != 1 {
		t.Errorf("%+v", e)
	}
	if e.Of(TeacherKey{Endpoint: "e", Model: "m", Epoch: 3}) != nil {
		t.Error("another epoch is another teacher")
	}
	if err := c.ChangeEpochs(context.Background(), "d", func(*Epochs) bool { return false }); err != nil {
		t.Error(err)
	}
}

func TestDamagedEpochsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                               "is not the JSON",
		`{"format_version":9}`:            "newer than this program reads",
		`{"teachers":[{"refreshes":-1}]}`: "below zero",
		`{"teachers":[{"probes":-1,"model":"m"}]}`:   "below zero",
		`{"teachers":"` + strings.Repeat("x", 1<<17): "",
	} {
		b := mem.New("t")
		if _, err := objstore.PutBytes(context.Background(), b, epochsKey("d"), []byte(text), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := Open(b).Epochs(context.Background(), "d")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", text, err)
		}
		changed := Open(b).ChangeEpochs(context.Background(), "d", func(*Epochs) bool { return true })
		if changed == nil {
			t.Errorf("%.40s was written over", text)
		}
	}
}

// What grows is what probes showed; how often a teacher was asked anew is never
// forgotten: its answers would be taken for new ones.
func TestEpochsKeepTheirCountsWhereTheyGrowLarge(t *testing.T) {
	c := Open(mem.New("t"))
	shown, _ := json.Marshal(strings.Repeat("x", 3000))
	for i := range 100 {
		at := time.Unix(int64(i), 0)
		if err := c.ChangeEpochs(context.Background(), "d", func(e *Epochs) bool {
			one := e.Add(TeacherKey{Endpoint: "e", Model: fmt.Sprint(i)}, "t")
			one.Refreshes, one.ProbedAt, one.Drift = i+1, &at, shown
			return true
		}); err != nil {
			t.Fatal(err)
		}
	}
	e, err := c.Epochs(context.Background(), "d")
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for i := range 100 {
		one := e.Of(TeacherKey{Endpoint: "e", Model: fmt.Sprint(i)})
		if one == nil || one.Refreshes != i+1 {
			t.Fatalf("teacher %d is %+v", i, one)
		}
		if one.Drift != nil {
			kept++
		} else if i > 95 {
			t.Errorf("what probe %d showed is forgotten before older ones", i)
		}
	}
	if kept < 10 {
		t.Errorf("what %d probes showed is kept", kept)
	}
}
