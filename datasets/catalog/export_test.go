package catalog

import "time"

// OpenAt is Open with a clock of the test's.
func OpenAt(c *Catalog, now func() time.Time) *Catalog {
	return &Catalog{bucket: c.bucket, now: now}
}
