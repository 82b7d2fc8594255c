package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOrderTable(t *testing.T) {
	table, err := newOrderTable(t.TempDir() + "/orders")
	if err != nil {
		t.Fatal(err)
	}
	defer table.close()
	id := func(n int64) string { return fmt.Sprintf("%032x", n) }
	orders := []int64{0, 3, orderMemory - 1, orderMemory, orderMemory + orderChunk + 5}
	for _, n := range orders {
		if err := table.put(n, orderRow{ID: id(n), Efforts: int(n % 7), Source: int(n % 3)}); err != nil {
			t.Fatal(err)
		}
		if err := table.change(n, func(r *orderRow) { r.Members++; r.Same, r.Near, r.Jaccard = n+1, n+2, 0.5 }); err != nil {
			t.Fatal(err)
		}
	}
	var seen []int64
	if err := table.each(context.Background(), func(n int64, r *orderRow) error {
		seen = append(seen, n)
		if want := (orderRow{ID: id(n), Efforts: int(n % 7), Source: int(n % 3), Members: 1, Same: n + 1, Near: n + 2, Jaccard: 0.5}); *r != want {
			t.Errorf("row %d: %+v, want %+v", n, *r, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seen, orders) {
		t.Errorf("rows %v, want %v", seen, orders)
	}
	if _, err := table.get(orders[len(orders)-1] + 1); err == nil {
		t.Error("a row after the last")
	}
	stop := errors.New("stop")
	if err := table.each(context.Background(), func(int64, *orderRow) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("stopped with %v", err)
	}
}

func TestBucketSort(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type item struct {
			Key string
			N   int
		}
		s := newBucketSort(t.TempDir(), "b", func(i *item) string { return i.Key })
		defer s.close()
		s.most = rapid.IntRange(1, 40).Draw(rt, "most")
		var want []item
		for i, key := range rapid.SliceOfN(rapid.StringMatching(`[0-9a-f]{4}`), 0, 60).Draw(rt, "keys") {
			want = append(want, item{key, i})
			if err := s.add(item{key, i}); err != nil {
				rt.Fatal(err)
			}
		}
		slices.SortStableFunc(want, func(a, b item) int { return strings.Compare(a.Key, b.Key) })
		var got []item
		for i, err := range s.sorted() {
			if err != nil {
				rt.Fatal(err)
			}
			got = append(got, i)
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("got %v, want %v", got, want)
		}
	})
}
