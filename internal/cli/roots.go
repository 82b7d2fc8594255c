package cli

import "crypto/x509"

// mostCA bounds a file of authorities, in bytes: the bundles of whole systems
// have a quarter of a megabyte.
const mostCA = 8 << 20

// loadRoots reads the authorities of --ca. They are added to those of the system:
// a teacher inside a company and one outside may serve one build.
func (a *app) loadRoots() error {
	if a.caFile == "" {
		return nil
	}
	text, err := readSmall("--ca", a.caFile, mostCA, "certificates")
	if err != nil {
		return err
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
