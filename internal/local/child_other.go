//go:build !noembed && !linux

package local

import "syscall"

// childAttributes put the child in a group of its own, out of reach of the
// terminal's Ctrl-C. It ends when its pipe closes.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
