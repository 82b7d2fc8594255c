package training

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// BootstrapScript fetches a bundle's archive from STILLHOUSE_BUNDLE_URL, holds
// it to STILLHOUSE_BUNDLE_SHA256, unpacks it and runs run.sh.
//
//go:embed bootstrap.sh
var BootstrapScript string

// archivePrefix begins the names of archives: of a bundle's own files and
// [URLsFile], for machines that reach the store by presigned URLs only. Every
// submission writes one of its own, since URLs end, and a machine that was
// started by an earlier one may be about to fetch its own.
const archivePrefix = "bundle-"

// ArchiveName is the name of an archive in the bundle's folder, by its digest.
func ArchiveName(sha256 string) string { return archivePrefix + sha256[:16] + ".tar.gz" }

// IsArchive tells whether a file of the folder is an archive.
func IsArchive(name string) bool { return strings.HasPrefix(name, archivePrefix) }

// URLsFile names each of the view's files and the presigned URL that reads it, a
// line each: NAME<tab>URL. It is part of the archive only.
const URLsFile = "urls"

// Archive packs files, for the same files into the same bytes.
func Archive(files []File) ([]byte, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, f := range files {
		if !fs.ValidPath(f.Name) {
			return nil, fmt.Errorf("pack the bundle: %q is no name", f.Name)
		}
		mode := f.Mode
		if mode == 0 {
			mode = 0o644
		}
		err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: f.Name, Mode: int64(mode.Perm()), Size: int64(len(f.Data)),
			ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatPAX,
		})
		if err == nil {
			_, err = w.Write(f.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("pack the bundle: %s: %w", f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack the bundle: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("pack the bundle: %w", err)
	}
	return out.Bytes(), nil
}
