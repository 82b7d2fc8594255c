package answers

import "time"

// tuning holds the numbers that no user needs to change and that tests shrink.
type tuning struct {
	pieceBytes int64         // a journal piece is finished at this size,
	pieceAge   time.Duration // or at this age
	groupBytes int           // of records written with one fsync
	groupWait  time.Duration // for more of them, where several came at once

	spillBytes int64         // records waiting for the index beyond this are read back from the journal
	flushBytes int64         // waiting records that start a commit by themselves
	flushAge   time.Duration // and how long any may wait
	restTimes  int64         // a commit rests this many times what the last one took,
	restMost   time.Duration // at most this long
	batchBytes int64         // raw bytes that one commit or import turns into segments at a time
	batchRows  int           // and records

	closeRows    int64         // a range with more records is closed
	smallBytes   int64         // segments below this are merged,
	smallMost    int           // once a range holds more of them than this
	mergeBytes   int64         // into one of at most about this
	grace        time.Duration // before a replaced segment is deleted
	patience     time.Duration // with an index write, much shorter than grace
	remoteBytes  int64         // key files of larger segments are made without fetching all of the segment
	recentBytes  int64         // records kept in memory
	fetchBytes   int64         // of one lookup's records; see ErrLarge
	cacheBytes   int64         // files kept on disk
	openKeys     int64         // open key files
	filterBytes  int64         // filters of open key files, in memory
	openSegments int64         // open segments
}

func defaults() tuning {
	return tuning{
		pieceBytes: 64 << 20, pieceAge: time.Second, groupBytes: 16 << 20, groupWait: 2 * time.Millisecond,
		spillBytes: 64 << 20, flushBytes: 32 << 20, flushAge: 10 * time.Second,
		restTimes: 12, restMost: 750 * time.Millisecond,
		batchBytes: 64 << 20, batchRows: 100_000,
		closeRows: 1 << 20, smallBytes: 64 << 20, smallMost: 16, mergeBytes: 256 << 20,
		grace: time.Hour, patience: 20 * time.Minute, remoteBytes: 8 << 20,
		recentBytes: 32 << 20, fetchBytes: 8 << 20, cacheBytes: 20 << 30, openKeys: 512, filterBytes: 32 << 20, openSegments: 64,
	}
}
