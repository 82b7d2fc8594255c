package parquetio

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Bounds of the metadata of a file. The library makes room for as many
// elements, or bytes, as a list or a string says that it has, before it reads
// them: a few bytes would cost gigabytes, and running out of memory is no
// panic that could be caught.
const (
	maxFooterBytes = 256 << 20
	maxDepthThrift = 24
	maxStructs     = 1 << 20 // in lists; a footer has one for each column of each row group
)

// Types of the compact protocol (Apache Thrift, doc/specs/thrift-compact-protocol.md).
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftInt16  = 4
	thriftInt32  = 5
	thriftInt64  = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
)

// byteSkipper is a buffered reader that can pass over bytes.
type byteSkipper interface {
	io.ByteReader
	Discard(n int) (int, error)
}

// A thriftScan walks over metadata before it is decoded and holds every length
// in it to the bytes that are there.
type thriftScan struct {
	in      byteSkipper
	left    int64 // bytes that there can be
	structs int
}

// scanThrift walks over one struct of at most left bytes and returns its size.
func scanThrift(in byteSkipper, left int64) (int64, error) {
	s := &thriftScan{in: in, left: left}
	if err := s.fields(0); err != nil {
		return 0, err
	}
	return left - s.left, nil
}

var errThrift = fmt.Errorf("%w: its metadata contradicts itself", ErrDamaged)

// ReadByte reads one byte of what is left.
func (s *thriftScan) ReadByte() (byte, error) {
	if s.left <= 0 {
		return 0, errThrift
	}
	s.left--
	b, err := s.in.ReadByte()
	return b, damaged(err)
}

func (s *thriftScan) skip(n uint64) error {
	if n > uint64(s.left) {
		return errThrift
	}
	s.left -= int64(n)
	_, err := s.in.Discard(int(n))
	return damaged(err)
}

func (s *thriftScan) uvarint() (uint64, error) {
	n, err := binary.ReadUvarint(s)
	return n, damaged(err)
}

func (s *thriftScan) fields(depth int) error {
	if depth > maxDepthThrift {
		return errThrift
	}
	for {
		b, err := s.ReadByte()
		if err != nil || b == 0 {
			return err
		}
		if b>>4 == 0 {
			if _, err := s.uvarint(); err != nil { // the field's number
				return err
			}
		}
		if t := b & 0xf; t != thriftTrue && t != thriftFalse { // whose value is the type
			if err := s.value(t, depth); err != nil {
				return err
			}
		}
	}
}

func (s *thriftScan) value(t byte, depth int) error {
	switch t {
	case thriftTrue, thriftFalse, thriftByte:
		return s.skip(1)
	case thriftInt16, thriftInt32, thriftInt64:
		_, err := s.uvarint()
		return err
	case thriftDouble:
		return s.skip(8)
	case thriftBinary:
		n, err := s.uvarint()
		if err != nil {
			return err
		}
		return s.skip(n)
	case thriftList, thriftSet:
		return s.list(depth)
	case thriftMap:
		return s.mapping(depth)
	case thriftStruct:
		return s.fields(depth + 1)
	default:
		return errThrift
	}
}

func (s *thriftScan) list(depth int) error {
	b, err := s.ReadByte()
	if err != nil {
		return err
	}
	n := uint64(b >> 4)
	if n == 0xf {
		if n, err = s.uvarint(); err != nil {
			return err
		}
	}
	return s.elements(n, depth, b&0xf)
}

func (s *thriftScan) mapping(depth int) error {
	n, err := s.uvarint()
	if err != nil || n == 0 {
		return err
	}
	b, err := s.ReadByte()
	if err != nil {
		return err
	}
	return s.elements(n, depth, b>>4, b&0xf)
}

// elements walks over n elements, or entries of a map; each takes a byte or more.
func (s *thriftScan) elements(n uint64, depth int, types ...byte) error {
	if n > uint64(s.left) || depth >= maxDepthThrift {
		return errThrift
	}
	for range n {
		for _, t := range types {
			if t == thriftStruct {
				if s.structs++; s.structs > maxStructs {
					return fmt.Errorf("%w: more than %d parts in its metadata", ErrDamaged, maxStructs)
				}
			}
			if err := s.value(t, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
