//go:build unix

package wallet

import (
	"os"
	"syscall"
)

// mapFile maps a file that is allocated in full: what is stored there is in the
// page cache, and outlives the process, without a call of the system. nil where
// the filesystem cannot.
func mapFile(f *os.File) []byte {
	m, err := syscall.Mmap(int(f.Fd()), 0, fileSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	return m
}

func unmapFile(m []byte) error { return syscall.Munmap(m) }
