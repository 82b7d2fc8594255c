//go:build !linux

package sandbox

import "errors"

func openBubblewrap(*Options) (isolation, string, error) {
	return nil, "", errors.New("it works on Linux alone")
}
