// Package crosscheck holds the client of package teachers against the vendors'
// own clients: that it reads what they read wherever they are right, and what
// it costs in allocations and CPU time beside them and beside a bare loop. It
// is tests alone; the vendors' modules are linked by nothing else.
package crosscheck
