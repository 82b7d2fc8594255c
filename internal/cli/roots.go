package cli

import (
	"crypto/x509"
	"os"
)

// mostCA bounds a file of authorities, in bytes: the bundles of whole systems
// have a quarter of a megabyte.
const mostCA = 8 << 20

// loadRoots reads the authorities of --ca. They are added to those of the system:
// a teacher inside a company and one outside may serve one build.
func (a *app) loadRoots() error {
	if a.caFile == "" {
		return nil
	}
	info, err := os.Stat(a.caFile)
	switch {
	case err != nil:
		return usage("--ca: %v", err)
	case !info.Mode().IsRegular() || info.Size() > mostCA:
		return usage("--ca: %s is no file of certificates", a.caFile)
	}
	text, err := os.ReadFile(a.caFile)
	if err != nil {
		return usage("--ca: %v", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		a.warn("warning: the authorities of this system cannot be read (%v); those of %s alone are trusted", err, a.caFile)
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return usage("--ca: %s holds no certificate in PEM form", a.caFile)
	}
	a.roots = roots
	return nil
}
