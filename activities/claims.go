package activities

import "sync"

// claims are the asks that this worker has in hand. Two tasks may come to the
// same ask (a prompt at two efforts that a teacher takes alike), and an
// activity that the server gave up for lost may run beside its successor:
// whoever comes second waits for the first one's answer instead of paying for
// another.
type claims struct {
	mu   sync.Mutex
	held map[string]*claim // by ask id
}

// A claim is one ask in one batch's hands.
type claim struct {
	id    string
	ended chan struct{} // closed once it is answered and kept, or given up
	once  sync.Once
}

// take claims an ask, or gives the claim that somebody else has.
func (c *claims) take(id string) (mine, other *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.held[id]; other != nil {
		return nil, other
	}
	if c.held == nil {
		c.held = map[string]*claim{}
	}
	mine = &claim{id: id, ended: make(chan struct{})}
	c.held[id] = mine
	return mine, nil
}

// release ends a claim of the caller's, once.
func (c *claims) release(mine *claim) {
	mine.once.Do(func() {
		c.mu.Lock()
		delete(c.held, mine.id)
		c.mu.Unlock()
		close(mine.ended)
	})
}
