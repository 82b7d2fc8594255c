package sandbox

import "os"

// pipes are the ends that a job needs: theirs go to programs and are closed
// here once those are started, ours are closed at the end.
type pipes struct{ theirs, ours []*os.File }

// reader makes a pipe that a program writes to and we read.
func (p *pipes) reader(theirs **os.File) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.theirs, p.ours = append(p.theirs, w), append(p.ours, r)
	*theirs = w
	return r, nil
}

// writer makes a pipe that we write to and a program reads.
func (p *pipes) writer(theirs **os.File) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.theirs, p.ours = append(p.theirs, r), append(p.ours, w)
	*theirs = r
	return w, nil
}

// between makes a pipe from one program to another.
func (p *pipes) between(from, to **os.File) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	p.theirs = append(p.theirs, r, w)
	*from, *to = w, r
	return nil
}

// started closes the programs' ends, so that theirs are the only ones.
func (p *pipes) started() {
	for _, f := range p.theirs {
		_ = f.Close()
	}
	p.theirs = nil
}

func (p *pipes) close() {
	p.started()
	for _, f := range p.ours {
		_ = f.Close() // twice where a writer has closed its own
	}
	p.ours = nil
}
