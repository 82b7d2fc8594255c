package cli

import (
	"os"

	"golang.org/x/term"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/views"
)

// checkStdout holds the flags to what stdout takes.
func (a *app) checkStdout(f exportFlags) error {
	switch f.Form {
	case "", views.JSONL, views.Arrow:
	default:
		return usage("stdout takes --format jsonl or arrow, not %s; name a folder", f.Form)
	}
	switch f.split {
	case "", datasets.TableTrain, datasets.TableTest:
	default:
		return usage("--split %q; there are: %s, %s", f.split, datasets.TableTrain, datasets.TableTest)
	}
	if out, ok := a.out.(*os.File); ok && f.Form == views.Arrow && term.IsTerminal(int(out.Fd())) {
		return usage("an Arrow stream is no text for a terminal; pipe it: stillhouse export REF - --format arrow | python train.py")
	}
	return nil
}

// saySplits tells whoever trains on a stream that it has the test rows too: in
// batches nothing says where they begin.
func (a *app) saySplits(s *views.Stream) {
	splits := s.Splits()
	if len(splits) < 2 || a.quiet {
		return
	}
	a.warn("the stream has up to %s rows of %s, then %s of %s; --split %s streams those alone",
		grouped(s.AtMost(splits[0])), splits[0], grouped(s.AtMost(splits[1])), splits[1], splits[0])
}
