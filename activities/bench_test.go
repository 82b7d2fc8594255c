package activities

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// working answers sums with a page of working.
func working(r teacherstest.Request) teacherstest.Reply {
	return teacherstest.Reply{
		Reasoning: strings.Repeat("Let me add the two numbers step by step, <carefully>.\n", 40),
		Content:   strings.Repeat("First I take the units.\n", 20) + "A: 42",
		Pieces:    200,
	}
}

// benchBuild is a build of one full shard with some teachers, answered.
func benchBuild(b *testing.B, teachers int) *run {
	b.Helper()
	server := teacherstest.New(b, working)
	w := newWorld(b)
	w.file("p.jsonl", sums(ShardTasks))
	var recipe strings.Builder
	recipe.WriteString("name: bench\nprompts: [{path: p.jsonl, fields: {prompt: question, gold: gold}}]\ncheck: [{verifier: math}]\nmerge: {accept: any}\nteachers:\n")
	for i := range teachers {
		fmt.Fprintf(&recipe, "  - {id: t%d, model: m%d, base_url: %s, limits: {concurrency: 16}}\n", i, i, server.URL)
	}
	return w.start(recipe.String()).ask()
}

func BenchmarkRefineShard(b *testing.B) {
	for _, teachers := range []int{1, 8} {
		b.Run(fmt.Sprintf("teachers=%d", teachers), func(b *testing.B) {
			r := benchBuild(b, teachers)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				counts, err := r.w.a.refineShard(context.Background(), r.refineInput(0))
				if err != nil {
					b.Fatal(err)
				}
				n += int(counts.Candidates)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "candidates/s")
		})
	}
}

func BenchmarkSeal(b *testing.B) {
	r := benchBuild(b, 4)
	r.refine()
	s := &seal{a: r.w.a, in: r.sealInput(), note: func(string) {}}
	var err error
	if s.rt, s.plan, err = r.w.a.planned(context.Background(), r.ref, r.plan.Key); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		s.begin()
		if _, err := s.write(context.Background(), b.TempDir()); err != nil {
			b.Fatal(err)
		}
		n += int(s.result.Candidates)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "candidates/s")
}

// BenchmarkAskShard asks everything anew each time, of an endpoint in the same
// process.
func BenchmarkAskShard(b *testing.B) {
	server := teacherstest.New(b, func(teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: "First I take the units.\nA: 42"}
	})
	w := newWorld(b)
	w.file("p.jsonl", sums(ShardTasks))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		b.StopTimer()
		r := w.start(fmt.Sprintf("name: bench\nprompts: [{path: p.jsonl}]\nteachers: [{id: t, model: m, base_url: %s, epoch: %d, limits: {concurrency: 64}}]\n", server.URL, w.builds))
		b.StartTimer()
		done := make(chan wire.AskOutput)
		for batch := range r.plan.Teachers[0].Batches {
			go func() { done <- r.askBatch("t", batch) }()
		}
		for range r.plan.Teachers[0].Batches {
			n += int((<-done).Counts.New)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "answers/s")
}
