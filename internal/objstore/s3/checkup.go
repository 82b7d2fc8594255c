package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// States of a finding.
const (
	FindingOK   = "ok"
	FindingWarn = "warn" // it works, and something should be known
	FindingFail = "fail" // nothing should be published there
)

// A Finding is what one check of a store found, and what to do about it.
type Finding struct {
	Name  string
	State string
	Found string
	Fix   string
}

const (
	// Bounds of the clock's error: Amazon refuses from 15 minutes on.
	skewWarn = time.Minute
	skewFail = 10 * time.Minute
	// staleUpload is the age from which an unfinished upload is a leftover.
	staleUpload = 24 * time.Hour
	racers      = 8
	raceRounds  = 3
	checkedPart = 5 << 20 // the smallest that S3 takes but for the last
	// markedFolder is no name of a dataset or of an endpoint, so that what a
	// broken check leaves is taken for neither.
	markedFolder = "DOCTOR-"
)

// Prefixes are those under which the program writes.
var Prefixes = []string{"answers", "batches", "datasets", "handoff", "probe", "recipes", "sources"}

// A checkup is one run of Checkup.
type checkup struct {
	*Bucket
	ctx      context.Context
	folder   string
	findings []Finding
	wrote    []string
}

// Checkup tries everything that the program rests on, with some dozens of small
// requests and 10 MiB, and says what it found. It deletes what it wrote. Where
// the store can't be reached at all, that is its only finding, with the error.
func (b *Bucket) Checkup(ctx context.Context) ([]Finding, error) {
	c := &checkup{Bucket: b, ctx: ctx, folder: "probe/" + markedFolder + rand.Text() + "/"}
	if err := b.Check(ctx); err != nil {
		c.fail("reach", "see stillhouse doctor for what is set", "%v", err)
		return c.findings, err
	}
	c.ok("reach", "%s", b.Describe())
	defer c.clean()
	for _, check := range []func(){
		c.region, c.clock, c.consistency, c.conditions, c.race, c.parts, c.ranges, c.checksums, c.keys, c.prefixes, c.encryption, c.presigned, c.uploads, c.versioning,
	} {
		check()
		if ctx.Err() != nil {
			return c.findings, ctx.Err()
		}
	}
	return c.findings, nil
}

func (c *checkup) ok(name, found string, args ...any) {
	c.findings = append(c.findings, Finding{Name: name, State: FindingOK, Found: fmt.Sprintf(found, args...)})
}

func (c *checkup) warn(name, fix, found string, args ...any) {
	c.findings = append(c.findings, Finding{name, FindingWarn, fmt.Sprintf(found, args...), fix})
}

func (c *checkup) fail(name, fix, found string, args ...any) {
	c.findings = append(c.findings, Finding{name, FindingFail, fmt.Sprintf(found, args...), fix})
}

// put writes an object that clean deletes.
func (c *checkup) put(key, text string, opt objstore.PutOptions) (objstore.Attr, error) {
	c.wrote = append(c.wrote, key)
	return objstore.PutBytes(c.ctx, c.Bucket, key, []byte(text), opt)
}

func (c *checkup) get(key string) (string, error) {
	data, _, err := objstore.ReadAll(c.ctx, c.Bucket, key, 64<<20)
	return string(data), err
}

func (c *checkup) clean() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), abortTimeout)
	defer cancel()
	slices.Sort(c.wrote)
	if len(c.wrote) > 0 {
		_ = c.Delete(ctx, slices.Compact(c.wrote)...)
	}
}

// Fixes that several checks name.
const (
	fixOther    = "use a store that honours it; nothing is published to this one"
	fixRights   = "give the role s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload and, on the bucket, s3:ListBucket"
	fixChecksum = "set AWS_REQUEST_CHECKSUM_CALCULATION=when_required and AWS_RESPONSE_CHECKSUM_VALIDATION=when_required"
)

func (c *checkup) region() {
	region, err := c.askRegion(c.ctx, c.Bucket.region)
	switch {
	case err != nil:
		c.warn("region", "none is needed while requests are answered", "the store does not say which region the bucket is in")
	case region != c.Bucket.region:
		c.fail("region", "set AWS_REGION="+region, "the bucket is in %s, and requests are signed for %s", region, c.Bucket.region)
	default:
		c.ok("region", "%s, as requests are signed for", region)
	}
}

func (c *checkup) clock() {
	sent := time.Now()
	out, err := c.client.ListObjectsV2(c.ctx, &awss3.ListObjectsV2Input{Bucket: &c.bucket, Prefix: aws.String(objstore.JoinPrefix(c.prefix, c.folder)), MaxKeys: aws.Int32(1)})
	took := time.Since(sent)
	if err != nil {
		c.fail("clock", fixRights, "%v", c.wrap("list", c.folder, err))
		return
	}
	there, ok := awsmiddleware.GetServerTime(out.ResultMetadata)
	if !ok {
		c.warn("clock", "none is needed while requests are answered", "the store does not say what time it is")
		return
	}
	skew := there.Sub(sent.Add(took / 2)).Abs().Truncate(time.Second)
	const fix = "set this machine's clock, or let it follow a time server"
	switch {
	case skew >= skewFail:
		c.fail("clock", fix, "this machine's clock is off by %v; stores refuse signatures from 15 minutes on", skew)
	case skew >= skewWarn:
		c.warn("clock", fix, "this machine's clock is off by %v", skew)
	default:
		c.ok("clock", "within %v of the store's; an answer took %v", max(skew, time.Second), took.Round(10*time.Microsecond))
	}
}

// consistency: what was written, replaced or deleted is so for every read and
// every listing that begins afterwards.
func (c *checkup) consistency() {
	const fix = "use a store that is consistent: on this one a build can lose what it has just written"
	key := c.folder + "consistency"
	list := func() (found []string, err error) {
		for attr, err := range c.List(c.ctx, key, "") {
			if err != nil {
				return nil, err
			}
			found = append(found, attr.Key)
		}
		return found, nil
	}
	for round := range raceRounds {
		text := fmt.Sprint("round ", round)
		if _, err := c.put(key, text, objstore.PutOptions{}); err != nil {
			c.fail("consistency", fixRights, "%v", err)
			return
		}
		got, err := c.get(key)
		there, listErr := list()
		switch {
		case err != nil || listErr != nil:
			c.fail("consistency", fix, "what was written can't be read: %v", errors.Join(err, listErr))
			return
		case got != text:
			c.fail("consistency", fix, "a read after a write returned what was there before")
			return
		case len(there) != 1:
			c.fail("consistency", fix, "a listing after a write does not show it")
			return
		}
	}
	if err := c.Delete(c.ctx, key); err != nil {
		c.fail("consistency", fixRights, "%v", err)
		return
	}
	_, err := c.Head(c.ctx, key)
	if there, listErr := list(); !errors.Is(err, objstore.ErrNotFound) || listErr != nil || len(there) > 0 {
		c.fail("consistency", fix, "what was deleted is still there")
		return
	}
	c.ok("consistency", "reads and listings show every write at once")
}

func (c *checkup) conditions() {
	err := objstore.Probe(c.ctx, c.Bucket)
	c.judge("conditions", err, "If-None-Match and If-Match are honoured")
	err = c.probeParts(c.ctx)
	c.judge("on completion", err, "If-None-Match is honoured when an upload in parts is completed")
}

func (c *checkup) judge(name string, err error, fine string) {
	switch {
	case err == nil:
		c.ok(name, "%s", fine)
	case errors.Is(err, objstore.ErrIgnoresConditions):
		c.fail(name, fixOther, "%v", err)
	default:
		c.fail(name, fixRights, "%v", err)
	}
}

// race: of many who create a key at once exactly one wins, and of many who
// replace what they read.
func (c *checkup) race() {
	for round := range raceRounds {
		key := fmt.Sprintf("%srace-%d", c.folder, round)
		c.wrote = append(c.wrote, key)
		attr, won, err := c.racing(key, objstore.PutOptions{IfNoneMatch: true})
		if err == nil && won == 1 {
			_, won, err = c.racing(key, objstore.PutOptions{IfMatch: attr.ETag})
		}
		switch {
		case err != nil:
			c.fail("race", fixRights, "%v", err)
			return
		case won != 1:
			c.fail("race", fixOther, "of %d conditional writes at once %d were told that they won", racers, won)
			return
		}
	}
	c.ok("race", "of %d conditional writes at once exactly one wins", racers)
}

func (c *checkup) racing(key string, opt objstore.PutOptions) (objstore.Attr, int64, error) {
	var won atomic.Int64
	var mu sync.Mutex
	var winner objstore.Attr
	var failed error
	var group sync.WaitGroup
	for n := range racers {
		group.Go(func() {
			attr, err := objstore.PutBytes(c.ctx, c.Bucket, key, fmt.Appendf(nil, "%d of %s", n, rand.Text()), opt)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won.Add(1)
				winner = attr
			case !errors.Is(err, objstore.ErrPrecondition):
				failed = err
			}
		})
	}
	group.Wait()
	return winner, won.Load(), failed
}

// parts: an upload in parts gives the bytes that were sent.
func (c *checkup) parts() {
	const fix = "let uploads in parts through to the store; large tables can't be written without"
	key := c.folder + "parts"
	c.wrote = append(c.wrote, key)
	body := make([]byte, 2*checkedPart+1)
	_, _ = rand.Read(body)
	w := &write{key: &key, body: bytes.NewReader(body), size: int64(len(body)), opt: objstore.PutOptions{ContentType: defaultContentType, IfNoneMatch: true}, mark: rand.Text()}
	var err error
	if w.full, err = c.full(key); err == nil {
		_, err = c.try(c.ctx, w, c.putParts)
	}
	if err != nil {
		f := fix
		if status(err) == http.StatusForbidden {
			f = fixRights
		}
		c.fail("parts", f, "%v", c.wrapPut(w, err))
		return
	}
	got, err := c.get(key)
	switch {
	case errors.Is(err, objstore.ErrChecksum):
		c.fail("parts", fixChecksum, "the store returns a checksum of the parts as if it were of the whole: %v", err)
	case err != nil:
		c.fail("parts", fix, "%v", err)
	case got != string(body):
		c.fail("parts", fix, "%d bytes came back of the %d that were sent in parts, or others", len(got), len(body))
	default:
		c.ok("parts", "%d MiB in parts came back as they were sent", len(body)>>20)
	}
}

func (c *checkup) ranges() {
	const fix = "use a store, or a proxy before it, that answers Range requests; Parquet can't be read without"
	key := c.folder + "ranges"
	const text = "0123456789"
	if _, err := c.put(key, text, objstore.PutOptions{}); err != nil {
		c.fail("ranges", fixRights, "%v", err)
		return
	}
	for _, r := range []struct {
		off, n int64
		want   string
	}{{0, 3, "012"}, {4, 2, "45"}, {7, -1, "789"}, {9, 10, "9"}, {10, 1, ""}} {
		body, err := c.GetRange(c.ctx, key, r.off, r.n)
		if err != nil {
			c.fail("ranges", fix, "%v", err)
			return
		}
		got, err := io.ReadAll(body)
		if err = errors.Join(err, body.Close()); err != nil || string(got) != r.want {
			c.fail("ranges", fix, "%d bytes from %d of %q came as %q (%v)", r.n, r.off, text, got, err)
			return
		}
	}
	c.ok("ranges", "parts of an object are read as they are")
}

// checksums: whether the store takes a CRC32, holds the body to it, and gives it
// back.
func (c *checkup) checksums() {
	key := c.folder + "checksums"
	full, err := c.full(key)
	if err != nil {
		return
	}
	c.wrote = append(c.wrote, key)
	put := func(sum string, mode aws.RequestChecksumCalculation) error {
		in := &awss3.PutObjectInput{Bucket: &c.bucket, Key: full, Body: strings.NewReader("checked")}
		if sum != "" {
			in.ChecksumCRC32 = &sum
		}
		c.encrypt(in)
		_, err := c.client.PutObject(c.ctx, in, func(o *awss3.Options) { o.RequestChecksumCalculation = mode })
		return err
	}
	if err := put("", aws.RequestChecksumCalculationWhenSupported); err != nil {
		if put("", aws.RequestChecksumCalculationWhenRequired) != nil {
			c.fail("checksums", fixRights, "%v", c.wrap("put", key, err))
			return
		}
		if c.client.Options().RequestChecksumCalculation == aws.RequestChecksumCalculationWhenRequired {
			c.ok("checksums", "the store takes none, and none is sent; every file is held to its SHA-256")
			return
		}
		c.fail("checksums", fixChecksum, "the store refuses requests with a CRC32: %v", c.wrap("put", key, err))
		return
	}
	refused := put("AAAAAA==", aws.RequestChecksumCalculationWhenSupported) != nil
	out, err := c.client.HeadObject(c.ctx, &awss3.HeadObjectInput{Bucket: &c.bucket, Key: full, ChecksumMode: s3types.ChecksumModeEnabled})
	switch {
	case err != nil:
		c.fail("checksums", fixRights, "%v", c.wrap("head", key, err))
	case !refused:
		c.warn("checksums", "nothing has to be done: every file is held to its SHA-256 when it is read", "the store takes a CRC32 and does not hold the body to it")
	case aws.ToString(out.ChecksumCRC32) == "":
		c.ok("checksums", "a body with a wrong CRC32 is refused; the sum is not kept")
	default:
		c.ok("checksums", "a body with a wrong CRC32 is refused, and the sum comes back with it")
	}
}

func (c *checkup) encrypt(in *awss3.PutObjectInput) {
	if c.options.SSEKMSKeyID != "" {
		in.ServerSideEncryption, in.SSEKMSKeyId = s3types.ServerSideEncryptionAwsKms, &c.options.SSEKMSKeyID
	}
}

// keys: those that the program makes come back from a listing as they were, in
// byte order.
func (c *checkup) keys() {
	const fix = "use a store that takes such keys: names of prompt files are part of them"
	names := []string{"a+b=c", "ünï-日本", "with space", strings.Repeat("x", objstore.MaxComponentBytes), "%2F", "UPPER", "lower"}
	prefix := c.folder + "keys/"
	var want []string
	for _, name := range names {
		if _, err := c.put(prefix+name, name, objstore.PutOptions{}); err != nil {
			c.fail("keys", fix, "%v", err)
			return
		}
		want = append(want, prefix+name)
	}
	slices.Sort(want)
	var got []string
	for attr, err := range c.List(c.ctx, prefix, "") {
		if err != nil {
			c.fail("keys", fix, "%v", err)
			return
		}
		got = append(got, attr.Key)
	}
	if !slices.Equal(got, want) {
		c.fail("keys", fix, "keys came back from a listing as %q", got)
		return
	}
	c.ok("keys", "keys of any text come back in byte order")
}

// prefixes: what the role may do under each folder that the program writes to.
func (c *checkup) prefixes() {
	var refused []string
	for _, folder := range Prefixes {
		key := folder + "/" + markedFolder + rand.Text() + "/k"
		step := "write"
		_, err := c.put(key, "k", objstore.PutOptions{IfNoneMatch: true})
		if err == nil {
			step = "read"
			_, err = c.get(key)
		}
		if err == nil {
			step = "list"
			for _, err = range c.List(c.ctx, folder+"/"+markedFolder, "") {
				break
			}
		}
		if err == nil {
			step = "delete"
			err = c.Delete(c.ctx, key)
		}
		if err != nil {
			refused = append(refused, fmt.Sprintf("%s under %s/ (%s)", step, folder, codeOr(err)))
		}
	}
	if len(refused) > 0 {
		c.fail("permissions", fixRights+", under "+c.String()+"/*", "may not %s", strings.Join(refused, ", "))
		return
	}
	c.ok("permissions", "may write, read, list and delete under %s/", strings.Join(Prefixes, "/, "))
}

func codeOr(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Code != "" {
		return e.Code
	}
	return err.Error()
}

func (c *checkup) encryption() {
	key := c.folder + "encryption"
	if _, err := c.put(key, "k", objstore.PutOptions{}); err != nil {
		c.fail("encryption", fixRights+", and with a KMS key kms:GenerateDataKey and kms:Decrypt", "%v", err)
		return
	}
	full, err := c.full(key)
	if err != nil {
		return
	}
	out, err := c.client.HeadObject(c.ctx, &awss3.HeadObjectInput{Bucket: &c.bucket, Key: full})
	switch kms := c.options.SSEKMSKeyID; {
	case err != nil:
		c.fail("encryption", fixRights, "%v", c.wrap("head", key, err))
	case kms != "" && !strings.HasPrefix(string(out.ServerSideEncryption), "aws:kms"):
		c.fail("encryption", "use a store that has KMS, or unset STILLHOUSE_S3_KMS_KEY", "the KMS key %s was asked for, and the store does not encrypt with it", kms)
	case out.ServerSideEncryption == "":
		c.ok("encryption", "the store does not say that it encrypts")
	default:
		c.ok("encryption", "%s %s", out.ServerSideEncryption, aws.ToString(out.SSEKMSKeyId))
	}
}

// presigned: hand-offs give trainers URLs instead of credentials.
func (c *checkup) presigned() {
	const fix = "hand-offs to machines without credentials need it: let the store be reached under one name from everywhere"
	key := c.folder + "presigned"
	if _, err := c.put(key, "signed", objstore.PutOptions{}); err != nil {
		c.fail("presigned", fixRights, "%v", err)
		return
	}
	url, err := c.PresignGet(c.ctx, key, time.Minute)
	if err != nil {
		c.warn("presigned", fix, "%v", err)
		return
	}
	request, err := http.NewRequestWithContext(c.ctx, http.MethodGet, url, nil)
	if err != nil {
		c.warn("presigned", fix, "%v", err)
		return
	}
	answer, err := c.client.Options().HTTPClient.Do(request)
	if err != nil {
		c.warn("presigned", fix, "a presigned URL can't be read here")
		return
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil || answer.StatusCode != http.StatusOK || string(text) != "signed" {
		c.warn("presigned", fix, "a presigned URL gives HTTP %d", answer.StatusCode)
		return
	}
	c.ok("presigned", "a presigned URL reads its object")
}

func (c *checkup) uploads() {
	open, err := c.Uploads(c.ctx)
	if err != nil {
		c.warn("uploads", "give the role s3:ListBucketMultipartUploads and s3:AbortMultipartUpload, so that gc can remove what broken uploads leave", "%v", err)
		return
	}
	stale := 0
	for _, u := range open {
		if time.Since(u.Began) > staleUpload {
			stale++
		}
	}
	if stale > 0 {
		c.warn("uploads", "remove them: stillhouse gc --yes", "%d uploads were begun more than a day ago and never finished; their parts take space", stale)
		return
	}
	c.ok("uploads", "%d unfinished, none of them old", len(open))
}

func (c *checkup) versioning() {
	versioned, err := c.Versioned(c.ctx)
	switch {
	case err != nil:
		c.warn("versioning", "give the role s3:GetBucketVersioning", "%v", err)
	case versioned:
		c.warn("versioning", "purge needs s3:ListBucketVersions and s3:DeleteObjectVersion; let a lifecycle rule expire noncurrent versions, or gc frees no space", "the bucket keeps versions of its objects, or may")
	default:
		c.ok("versioning", "off: what is deleted is gone")
	}
}
