package verify

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
)

// A goldMemo remembers how the solutions of tasks did, so that each is tried
// once for all the answers to a task. It holds the latest few.
type goldMemo struct {
	mu    sync.Mutex
	known map[[32]byte]*goldRun
	order [][32]byte
}

type goldRun struct {
	done chan struct{}
	out  Outcome
}

// rememberedGolds bounds a memo.
const rememberedGolds = 1024

func (m *goldMemo) get(ctx context.Context, runner Runner, p *Program) Outcome {
	text, err := json.Marshal(p)
	if err != nil {
		return Outcome{Kind: NotRun, Reason: err.Error()}
	}
	key := sha256.Sum256(text)
	m.mu.Lock()
	run := m.known[key]
	if run == nil {
		run = &goldRun{done: make(chan struct{})}
		m.keep(key, run)
		m.mu.Unlock()
		run.out, err = runner.Run(ctx, p)
		if err != nil || run.out.Kind == NotRun {
			// That is no property of the solution: it is tried again.
			run.out.Kind = NotRun
			m.forget(key)
		}
		close(run.done)
		return run.out
	}
	m.mu.Unlock()
	select {
	case <-run.done:
		return run.out
	case <-ctx.Done():
		return Outcome{Kind: NotRun, Reason: "cancelled"}
	}
}

func (m *goldMemo) keep(key [32]byte, run *goldRun) {
	if m.known == nil {
		m.known = map[[32]byte]*goldRun{}
	}
	if len(m.order) == rememberedGolds {
		delete(m.known, m.order[0])
		m.order = m.order[1:]
	}
	m.known[key] = run
	m.order = append(m.order, key)
}

func (m *goldMemo) forget(key [32]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, key)
}
