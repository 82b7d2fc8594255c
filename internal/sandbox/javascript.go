package sandbox

import (
	_ "embed"
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

//go:embed harness/values.js
var valuesJS string

//go:embed harness/answer.js
var answerJS string

//go:embed harness/tests.js
var testsJS string

// nodeArgv starts node so that its heap stays within the memory, of which the
// runtime itself needs some.
func nodeArgv(node string, p *verify.Program) []string {
	heap := max(16, p.Limits.Memory>>20-96)
	return []string{node, fmt.Sprintf("--max-old-space-size=%d", heap), "--stack-size=900"}
}

// javascriptPair prepares the call of a JavaScript answer by JavaScript tests.
func (b *Box) javascriptPair(p *verify.Program) (*pair, error) {
	node, err := b.tools.need("node")
	if err != nil {
		return nil, err
	}
	argv := nodeArgv(node, p)
	return b.newPair(p,
		append(argv[:len(argv):len(argv)], "/box/answer.js"), file{name: "answer.js", data: []byte(valuesJS + "\n" + answerJS)},
		append(argv[:len(argv):len(argv)], "/box/tests.js"), file{name: "tests.js", data: []byte(valuesJS + "\n" + testsJS)})
}
