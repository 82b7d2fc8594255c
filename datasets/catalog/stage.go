package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// maxSeq is the largest number of a file within its split.
const maxSeq = 99_999

// Stage puts the Parquet file at path where a version of the dataset can name
// it: under the build, named by table, split, number and digest, created only
// if absent. It counts rows and teachers from the file itself, checks that the
// columns are the table's, and reads size and footer back from the store.
// Calling it again with the same file costs no second upload of other bytes and
// gives the same FileRef.
func (c *Catalog) Stage(ctx context.Context, dataset, buildID, table, split string, seq int, path string) (FileRef, error) {
	if err := errors.Join(ValidName(dataset), validBuild(buildID), validPart("table", table), validPart("split", split)); err != nil {
		return FileRef{}, err
	}
	if seq < 0 || seq > maxSeq {
		return FileRef{}, fmt.Errorf("%w file number %d: 0 to %d", ErrInvalid, seq, maxSeq)
	}
	ref, err := describe(path, table)
	if err != nil {
		return FileRef{}, fmt.Errorf("stage %s of %s: %s: %w", table, dataset, path, err)
	}
	ref.Table, ref.Split = table, split
	ref.Key = dataKey(dataset, buildID, table, fmt.Sprintf("%s-%05d-%s.parquet", split, seq, ref.SHA256))
	if _, err := objstore.CreateFileOrSame(ctx, c.bucket, ref.Key, path); err != nil {
		return FileRef{}, fmt.Errorf("stage %s of %s: %w", table, dataset, err)
	}
	if err := c.confirm(ctx, ref); err != nil {
		return FileRef{}, fmt.Errorf("stage %s of %s: %w", table, dataset, err)
	}
	return ref, nil
}

// describe derives from a local file what a FileRef says of it.
func describe(path, table string) (FileRef, error) {
	f, err := os.Open(path)
	if err != nil {
		return FileRef{}, err
	}
	defer f.Close()
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return FileRef{}, err
	}
	info, err := parquetio.Inspect(f, size)
	if err != nil {
		return FileRef{}, err
	}
	if want := parquetio.TableFingerprint(table); want != "" && want != info.Fingerprint {
		return FileRef{}, fmt.Errorf("%w: its columns (%s) are not those of the table (%s)", parquetio.ErrSchema, info.Fingerprint, want)
	}
	ref := FileRef{Bytes: size, Rows: info.Rows, SHA256: hex.EncodeToString(h.Sum(nil)), Fingerprint: info.Fingerprint}
	if ref.Teachers, err = countTeachers(info, f, size); err != nil {
		return FileRef{}, err
	}
	return ref, nil
}

// countTeachers counts the answers of a file by teacher: its rows, and of pairs
// both sides. It is nil where the table has no teachers.
func countTeachers(info *parquetio.Info, r io.ReaderAt, size int64) (map[string]int64, error) {
	var sum map[string]int64
	for _, column := range []string{"teacher", "chosen_teacher", "rejected_teacher"} {
		if !info.HasColumn(column) {
			continue
		}
		counts, err := parquetio.Count(r, size, column)
		if err != nil {
			return nil, err
		}
		if sum == nil {
			sum = map[string]int64{}
		}
		for id, n := range counts {
			sum[id] += n
		}
	}
	return sum, nil
}

// confirm reads an uploaded file's size and footer back: uploads have been
// seen to end well and leave a prefix.
func (c *Catalog) confirm(ctx context.Context, ref FileRef) error {
	if err := c.present(ctx, ref); err != nil {
		return err
	}
	info, err := parquetio.Inspect(objstore.NewReaderAt(ctx, c.bucket, ref.Key, ref.Bytes), ref.Bytes)
	if err != nil {
		return fmt.Errorf("read back %s: %w", ref.Key, err)
	}
	if info.Rows != ref.Rows || info.Fingerprint != ref.Fingerprint {
		return fmt.Errorf("%w: %s was read back with %d rows and columns %s, not %d and %s",
			ErrDamaged, ref.Key, info.Rows, info.Fingerprint, ref.Rows, ref.Fingerprint)
	}
	return nil
}

// present checks that a file is there with its size.
func (c *Catalog) present(ctx context.Context, ref FileRef) error {
	attr, err := c.bucket.Head(ctx, ref.Key)
	if errors.Is(err, objstore.ErrNotFound) {
		return fmt.Errorf("%w: %s is not in %s: %w", ErrDamaged, ref.Key, c.bucket, err)
	}
	if err != nil {
		return err
	}
	if attr.Size != ref.Bytes {
		return fmt.Errorf("%w: %s has %d bytes in %s, not %d", ErrDamaged, ref.Key, attr.Size, c.bucket, ref.Bytes)
	}
	return nil
}
