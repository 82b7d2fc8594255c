package activities

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/training"
)

// Bounds of what is read whole.
const (
	maxPurgedReport = 256 << 20
	maxRefusedRows  = 1 << 30
	journalPatience = 20 * time.Second
)

// eraseReports takes the prompts and answers out of a version's report: its
// figures stay, with a note of what they count, and its page is made anew
// without samples. Whatever else lies beside it goes.
func (w *purging) eraseReports(ctx context.Context, m *catalog.Manifest, rows map[string]int64) error {
	prefix, err := catalog.ReportKey(m.Dataset, m.BuildID, "report.json")
	if err != nil {
		return err
	}
	prefix = strings.TrimSuffix(prefix, "report.json")
	// The figures, while report.json is written anew: whoever dies between the
	// two leaves them here.
	spare := prefix + "purging.json"
	var kept []string
	for _, key := range m.Reports {
		if path.Base(key) != "report.json" {
			continue
		}
		text, _, err := objstore.ReadAll(ctx, w.Bucket, key, maxPurgedReport)
		if errors.Is(err, objstore.ErrNotFound) {
			text, _, err = objstore.ReadAll(ctx, w.Bucket, spare, maxPurgedReport)
		}
		if errors.Is(err, objstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		var r report.Report
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("%w: %s is not the JSON it should be: %w", catalog.ErrDamaged, key, err)
		}
		r.About = m.Dataset + ", build " + m.BuildID
		note := fmt.Sprintf("Rows were purged from this version on %s; the figures are those of the build and count them.", w.record.Started.Format(time.DateOnly))
		if !slices.Contains(r.Notes, note) {
			r.Notes = append(r.Notes, note)
		}
		var page, figures bytes.Buffer
		if err := errors.Join(r.HTML(&page), r.JSON(&figures)); err != nil {
			return err
		}
		if _, err := objstore.PutBytes(ctx, w.Bucket, spare, figures.Bytes(), objstore.PutOptions{ContentType: "application/json"}); err != nil {
			return err
		}
		html := strings.TrimSuffix(key, ".json") + ".html"
		for _, one := range []struct {
			key, kind string
			text      []byte
		}{{key, "application/json", figures.Bytes()}, {html, "text/html; charset=utf-8", page.Bytes()}} {
			// What is there goes first, with all that the store keeps of it.
			if err := w.delete(ctx, one.key); err != nil {
				return err
			}
			if _, err := objstore.PutBytes(ctx, w.Bucket, one.key, one.text, objstore.PutOptions{ContentType: one.kind}); err != nil {
				return err
			}
			kept = append(kept, one.key)
		}
	}
	var gone []string
	for attr, err := range w.Bucket.List(ctx, prefix, "") {
		if err != nil {
			return err
		}
		if !slices.Contains(kept, attr.Key) {
			gone = append(gone, attr.Key)
		}
	}
	if err := w.delete(ctx, gone...); err != nil {
		return err
	}
	m.Reports = slices.DeleteFunc(slices.Clone(m.Reports), func(key string) bool { return slices.Contains(gone, key) })
	w.result.Counts["report_files"] += int64(len(gone))
	return nil
}

// eraseBatches takes rows of the purged asks out of what batches brought and did
// not fit. Where prompts are purged, no request that holds one may wait in a
// batch any more.
func (w *purging) eraseBatches(ctx context.Context) error {
	parts := map[string]bool{} // of custom ids
	for id := range w.asks {
		if len(id) >= 32 {
			parts[id[:32]] = true
		}
	}
	if len(parts) == 0 {
		return nil
	}
	for attr, err := range w.Bucket.List(ctx, "batches/", "") {
		if err != nil {
			return err
		}
		switch path.Base(attr.Key) {
		case "refused.jsonl":
			err = w.eraseRefused(ctx, attr.Key, parts)
		case "requests.jsonl.zst":
			err = w.waitsInBatch(ctx, attr.Key, parts)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eraseRefused leaves of a file of refused rows those of other asks. A row that
// tells no ask goes too: nobody knows whose words it holds.
func (w *purging) eraseRefused(ctx context.Context, key string, parts map[string]bool) error {
	text, _, err := objstore.ReadAll(ctx, w.Bucket, key, maxRefusedRows)
	if err != nil {
		return err
	}
	var left []byte
	gone := int64(0)
	for line := range bytes.Lines(text) {
		known, purged := asksOf(line, parts)
		if purged || !known && len(bytes.TrimSpace(line)) > 0 {
			gone++
			continue
		}
		left = append(left, line...)
	}
	if gone == 0 {
		return nil
	}
	if err := w.delete(ctx, key); err != nil {
		return err
	}
	w.result.Counts["refused_rows"] += gone
	if len(left) == 0 {
		return nil
	}
	_, err = objstore.PutBytes(ctx, w.Bucket, key, left, objstore.PutOptions{ContentType: "application/jsonl"})
	return err
}

// asksOf tells whether a line holds something that may be a part of an ask's id,
// and whether one of these parts is in it.
func asksOf(line []byte, parts map[string]bool) (known, purged bool) {
	const digits = 32
	run := 0
	for i := 0; i <= len(line); i++ {
		if i < len(line) && (line[i] >= '0' && line[i] <= '9' || line[i] >= 'a' && line[i] <= 'f') {
			if run++; run >= digits {
				known = true
				purged = purged || parts[string(line[i-digits+1:i+1])]
			}
			continue
		}
		run = 0
	}
	return known, purged
}

// waitsInBatch refuses to go on while a request of a purged prompt is in a batch
// that has not been collected.
func (w *purging) waitsInBatch(ctx context.Context, key string, parts map[string]bool) error {
	if w.plan.Scope != catalog.PurgePrompts {
		return nil // its request holds the prompt, which stays; what comes is not kept
	}
	body, _, err := w.Bucket.Get(ctx, key)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer body.Close()
	z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		return err
	}
	defer z.Close()
	in := bufio.NewReaderSize(z, 1<<20)
	for {
		// A custom id is at the start of its line, and a long line is read in parts.
		line, err := in.ReadSlice('\n')
		if _, purged := asksOf(line, parts); purged {
			return fmt.Errorf("a batch that is not collected yet holds such a prompt (%s); finish the build that made it, or cancel it", key)
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("read %s: %w", key, err)
		}
	}
}

// eraseWork deletes what builds of the dataset have left between their stages:
// none of them runs, and the next one makes its own.
func (w *purging) eraseWork(ctx context.Context) error {
	w.note("deleting what builds left between their stages")
	n, err := w.deleteWhere(ctx, "datasets/"+w.record.Dataset+"/work/", func(string) bool { return true })
	w.result.Counts["work_files"] += n
	return err
}

// deleteWhere deletes the objects under a prefix for which a rule says so.
func (w *purging) deleteWhere(ctx context.Context, prefix string, goes func(key string) bool) (n int64, err error) {
	const atOnce = 1000
	var keys []string
	for attr, err := range w.Bucket.List(ctx, prefix, "") {
		if err != nil {
			return n, err
		}
		if !goes(attr.Key) {
			continue
		}
		keys = append(keys, attr.Key)
	}
	if len(keys) == 0 {
		return 0, nil
	}
	// Where a second run has ended the purge, these may be a build's that has
	// begun since.
	if err := w.Catalog.StillPurging(ctx, w.record.Dataset, w.record.ID); err != nil {
		return 0, err
	}
	for chunk := range slices.Chunk(keys, atOnce) {
		if err := w.delete(ctx, chunk...); err != nil {
			return n, err
		}
		n += int64(len(chunk))
	}
	return n, nil
}

// eraseLeftovers deletes files, manifests and reports of the dataset that no
// version names: of builds that published nothing, of versions that were
// withdrawn and whose manifests are gone, and what this purge has replaced.
func (w *purging) eraseLeftovers(ctx context.Context) error {
	versions, err := w.versions(ctx)
	if err != nil && !errors.Is(err, catalog.ErrUnknown) {
		return err
	}
	named := map[string]bool{}
	for _, v := range versions {
		named[v.v.Manifest] = true
		for _, f := range v.m.Files {
			named[f.Key] = true
		}
		for _, key := range v.m.Reports {
			named[key] = true
		}
		for _, mark := range v.v.Purged {
			if mark.Record == w.result.Record && !slices.ContainsFunc(w.record.Versions, func(p catalog.PurgedVersion) bool { return p.Version == v.v.Number }) {
				w.record.Versions = append(w.record.Versions, catalog.PurgedVersion{Version: v.v.Number, Before: mark.Before, After: v.v.ManifestSHA256, Rows: mark.Rows})
			}
		}
	}
	for _, folder := range []string{"data/", "manifests/", "reports/"} {
		n, err := w.deleteWhere(ctx, "datasets/"+w.record.Dataset+"/"+folder, func(key string) bool { return !named[key] })
		if err != nil {
			return err
		}
		w.result.Counts["files"] += n
	}
	return nil
}

// purgedBundle is what is left in the place of a bundle's data.
const purgedBundle = "purged.json"

// eraseHandoffs deletes the data of hand-off bundles of the versions that rows
// were purged from. What was started with them stays known.
func (w *purging) eraseHandoffs(ctx context.Context) error {
	touched := map[string]bool{}
	for _, v := range w.record.Versions {
		touched[v.Before] = true
	}
	var bundles []string
	for attr, err := range w.Bucket.List(ctx, "handoff/", "") {
		if err != nil {
			return err
		}
		if path.Base(attr.Key) == training.HandoffFile {
			bundles = append(bundles, attr.Key)
		}
	}
	for _, key := range bundles {
		text, _, err := objstore.ReadAll(ctx, w.Bucket, key, maxBundleAll)
		if err != nil {
			return err
		}
		var b training.Bundle
		if err := json.Unmarshal(text, &b); err != nil {
			return fmt.Errorf("%w: %s is not the JSON it should be: %w", catalog.ErrDamaged, key, err)
		}
		if b.Dataset.Name != w.record.Dataset || !touched[b.Dataset.ManifestDigest] {
			continue
		}
		folder := strings.TrimSuffix(key, training.HandoffFile)
		n, err := w.deleteWhere(ctx, folder+training.DataFolder+"/", func(string) bool { return true })
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		mark, err := json.Marshal(catalog.PurgeMark{At: w.record.Started, Record: w.result.Record, Before: b.Dataset.ManifestDigest})
		if err != nil {
			return err
		}
		if _, err := objstore.PutBytes(ctx, w.Bucket, folder+purgedBundle, mark, objstore.PutOptions{ContentType: "application/json"}); err != nil {
			return err
		}
		w.result.Counts["handoff_files"] += n
		w.addNote("hand-off %s was of a version that is purged now: its data is gone from the store, and what was trained with it, or copied out of it, is yours to deal with", b.LaunchID[:min(12, len(b.LaunchID))])
	}
	return nil
}

// eraseObjects deletes pinned prompt files and images of purged prompts.
func (w *purging) eraseObjects(ctx context.Context) error {
	for _, key := range w.plan.Objects {
		if !strings.HasPrefix(key, "sources/") {
			return fmt.Errorf("%w: the plan names %s, which is no pinned file", catalog.ErrDamaged, key)
		}
	}
	w.result.Counts["pinned_files"] += int64(len(w.plan.Objects))
	return w.delete(ctx, w.plan.Objects...)
}

// journalsHold waits while a worker indexes, and so lets go of, what its journal
// holds of the keys; then it is an error.
func (w *purging) journalsHold(ctx context.Context, look func() ([]string, error)) error {
	deadline := time.NewTimer(journalPatience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		held, err := look()
		if err != nil || len(held) == 0 {
			return err
		}
		w.note("waiting for the journal of a worker")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			return fmt.Errorf("the journal of a worker still holds such answers (%s, and %d more); let the worker run, which indexes it within seconds, or start one where it ran", held[0], len(held)-1)
		case <-tick.C:
		}
	}
}
