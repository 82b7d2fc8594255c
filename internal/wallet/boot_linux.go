package wallet

import (
	"os"
	"strings"
)

// bootID names the time since this machine was started; "" where it cannot be
// known.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
