//go:build !noembed

package local

import "syscall"

// childAttributes put the child in a group of its own, out of reach of the
// terminal's Ctrl-C, and have the kernel end it with its parent even if it is
// too busy to see its pipe close.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
