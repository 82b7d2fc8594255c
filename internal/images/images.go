// Package images reads the images that prompts refer to: from files beside the
// prompts, from data URIs and from https addresses. References come with the
// data, so they are hostile: a path never leaves its folder, an address never
// reaches a private network, and nothing is larger than [MaxBytes] or of
// another kind than models take.
//
//	i, err := images.DataURI(ref)
//	i, err := folder.Read("cat.png")
//	i, err := fetcher.Fetch(ctx, "https://…/cat.png")
//	// err is a *Fault where the reference is at fault: no second try helps
package images

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode"
)

// MaxBytes is the largest image, in bytes: what hosted vision models take at
// most (OpenAI 20 MB, Anthropic 5 MB).
const MaxBytes = 20 << 20

// An Image is the bytes of one image.
type Image struct {
	Data      []byte
	MediaType string // image/png, image/jpeg, image/gif or image/webp, by the bytes themselves
	Digest    string // hex SHA-256 of Data
}

// A Fault is a reference that can't be used: no second try helps.
type Fault struct {
	Ref    string // as the data has it, shortened and without control characters
	Reason string // what is wrong, and what to do about it
}

// Error names the reference and what is wrong with it.
func (f *Fault) Error() string { return "image " + f.Ref + ": " + f.Reason }

func fault(ref, format string, args ...any) *Fault {
	return &Fault{Ref: shown(ref), Reason: fmt.Sprintf(format, args...)}
}

// shown is a reference for a message: the bytes of a data URI are left out, and
// so are the query of an address and what stands before its host, which may
// hold secrets.
func shown(ref string) string {
	const longest = 120
	if head, _, ok := strings.Cut(ref, ","); ok && IsDataURI(ref) {
		ref = head + ",…"
	} else if u, err := url.Parse(ref); err == nil && u.Host != "" {
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		ref = u.String()
	}
	ref = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(ref, "\uFFFD"))
	if len(ref) > longest {
		ref = strings.ToValidUTF8(ref[:longest], "") + "…"
	}
	return ref
}

// Of makes an image of its bytes.
func Of(ref string, data []byte) (*Image, error) {
	kind := mediaType(data)
	switch {
	case len(data) == 0:
		return nil, fault(ref, "it is empty")
	case len(data) > MaxBytes:
		return nil, tooLarge(ref)
	case kind == "":
		return nil, fault(ref, "its bytes are no PNG, JPEG, GIF or WebP; convert it")
	}
	sum := sha256.Sum256(data)
	return &Image{Data: data, MediaType: kind, Digest: hex.EncodeToString(sum[:])}, nil
}

// NewFault is a fault of a reference as the data has it.
func NewFault(ref, reason string) *Fault { return fault(ref, "%s", reason) }

func tooLarge(ref string) *Fault {
	return fault(ref, "it is larger than %d MiB; make it smaller", MaxBytes>>20)
}

// mediaType tells what an image is by its first bytes, "" for anything else.
func mediaType(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(b, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(b, []byte("GIF87a")), bytes.HasPrefix(b, []byte("GIF89a")):
		return "image/gif"
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// Extension is the end of a file's name for a media type, such as ".png".
func Extension(mediaType string) string {
	return "." + strings.TrimPrefix(mediaType, "image/")
}

// IsDataURI tells whether a reference holds its image itself.
func IsDataURI(ref string) bool { return len(ref) >= 5 && strings.EqualFold(ref[:5], "data:") }

// IsAddress tells whether a reference is an address of the web.
func IsAddress(ref string) bool { return strings.Contains(ref, "://") }

// DataURI reads the image that a reference holds itself (RFC 2397), in base64.
// What the reference says of its kind is not believed.
func DataURI(ref string) (*Image, error) {
	head, text, ok := strings.Cut(ref, ",")
	if !ok || !IsDataURI(ref) || !strings.HasSuffix(strings.ToLower(strings.TrimSpace(head)), ";base64") {
		return nil, fault(ref, "want data:image/png;base64,…")
	}
	if base64.StdEncoding.DecodedLen(len(text)) > MaxBytes+4 {
		return nil, tooLarge(ref)
	}
	text = strings.TrimRight(strings.Map(dropSpace, text), "=")
	data, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		data, err = base64.RawURLEncoding.DecodeString(text)
	}
	if err != nil {
		return nil, fault(ref, "its base64 text can't be read")
	}
	return Of(ref, data)
}

func dropSpace(r rune) rune {
	switch r {
	case ' ', '\t', '\r', '\n':
		return -1
	}
	return r
}

// readAll reads an image up to its largest size.
func readAll(ref string, r io.Reader) (*Image, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, err
	}
	return Of(ref, data)
}
