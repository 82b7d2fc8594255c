package wallet

import "syscall"

// bootID names the time since this machine was started; "" where it cannot be
// known.
func bootID() string {
	id, err := syscall.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
