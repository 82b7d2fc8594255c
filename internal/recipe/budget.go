package recipe

import "net/url"

// budget checks that the teachers with budgets of their own are teachers that
// can spend one. Whether what they spend can be bounded is for those who know
// their parameters.
func (c *checker) budget() {
	b := c.r.Ask.Budget
	if b == nil {
		return
	}
	ids := make([]string, len(c.r.Teachers))
	for i := range c.r.Teachers {
		ids[i] = c.r.Teachers[i].ID
	}
	for id := range b.Teachers {
		at := join("ask.budget.teachers", id)
		switch t := c.r.Teacher(id); {
		case t == nil:
			c.fault(at, "no teacher has this id", didYouMean(id, ids))
		case t.API == APIRecorded:
			c.fault(at, "its answers are recorded and cost nothing", "remove it")
		}
	}
}

// OnLoopback tells whether the teacher is asked on this machine, by the name of
// its host alone.
func (t *Teacher) OnLoopback() bool {
	u, err := url.Parse(t.BaseURL)
	return err == nil && isLoopback(u.Hostname())
}
