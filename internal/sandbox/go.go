package sandbox

import (
	"context"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

type goTools struct{}

func (g *goTools) close() {}
func (b *Box) goPair(ctx context.Context, p *verify.Program, slot int) (*pair, *verify.Outcome, error) {
	return nil, &verify.Outcome{}, nil
}
func (b *Box) buildGo(ctx context.Context, f map[string][]byte, p *verify.Program, slot int) ([]byte, *verify.Outcome, error) {
	return nil, nil, nil
}
func (b *Box) runCommand(ctx context.Context, p *verify.Program, slots [2]int) (verify.Outcome, error) {
	return verify.Outcome{}, nil
}
