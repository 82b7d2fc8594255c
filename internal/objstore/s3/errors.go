package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// An Error is an answer of the store that says no, or the lack of an answer.
// It wraps one of objstore's sentinels where one fits.
type Error struct {
	Op        string // such as "put"
	Key       string // relative to the prefix; "" for the bucket itself
	Store     string // s3://bucket/prefix
	Status    int    // of HTTP; 0 without an answer
	Code      string // of S3, such as AccessDenied
	RequestID string
	Hint      string // what to do next; may be empty

	kind  error // sentinel or nil
	cause error
}

// Error gives operation, subject, cause and next step.
func (e *Error) Error() string {
	var s strings.Builder
	s.WriteString(e.Op)
	if e.Key != "" {
		s.WriteString(" " + e.Key + " in")
	}
	s.WriteString(" " + e.Store + ": ")
	if e.kind != nil {
		s.WriteString(e.kind.Error() + ": ")
	}
	switch {
	case e.Code != "":
		fmt.Fprintf(&s, "HTTP %d %s", e.Status, e.Code)
		if text := apiMessage(e.cause); text != "" {
			s.WriteString(": " + text)
		}
	default:
		s.WriteString(rootMessage(e.cause))
	}
	if e.RequestID != "" {
		s.WriteString(" (request " + e.RequestID + ")")
	}
	if e.Hint != "" {
		s.WriteString("; " + e.Hint)
	}
	return s.String()
}

// Unwrap gives the sentinel and the SDK's error.
func (e *Error) Unwrap() []error {
	if e.kind == nil {
		return []error{e.cause}
	}
	return []error{e.kind, e.cause}
}

// wrap turns an SDK error into ours.
func (b *Bucket) wrap(op, key string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, Key: key, Store: b.String(), cause: err}
	var response *awshttp.ResponseError
	if errors.As(err, &response) {
		e.Status = response.HTTPStatusCode()
		e.RequestID = response.ServiceRequestID()
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		e.Code = api.ErrorCode()
	}
	switch {
	case isContext(err):
		// The caller ended it: no word about the store.
	case e.Code == "" && e.Status == 0:
		b.explainSilence(e)
	default:
		b.explainAnswer(e, response)
	}
	return e
}

func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// explainSilence is for requests that no answer came to.
func (b *Bucket) explainSilence(e *Error) {
	e.kind = objstore.ErrUnavailable
	where := b.endpoint
	if where == "" {
		where = "Amazon S3 in " + b.region
	}
	text := e.cause.Error()
	switch {
	case strings.Contains(text, "credentials"):
		e.Hint = "the credentials (" + b.credentials + ") could not be renewed; log in again, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	case strings.Contains(text, "x509:"), strings.Contains(text, "tls:"):
		e.Hint = "the certificate of " + where + " is not trusted; set AWS_CA_BUNDLE to the file of its authority"
	case neverConnected(e.cause):
		e.Hint = "nothing answers at " + where + "; is it running, and are AWS_ENDPOINT_URL_S3 and the network right?"
	default:
		e.Hint = "the connection to " + where + " broke; is that an S3 endpoint, and is the network stable?"
	}
}

// neverConnected is true where not even a connection came about.
func neverConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// explainAnswer is for what the store answered.
func (b *Bucket) explainAnswer(e *Error, response *awshttp.ResponseError) {
	switch e.Code {
	case "NoSuchBucket":
		e.kind, e.Hint = objstore.ErrUnavailable, "create the bucket "+b.bucket+", or check --store"
		return
	case "ExpiredToken", "ExpiredTokenException":
		e.kind, e.Hint = objstore.ErrUnavailable, "the credentials ("+b.credentials+") have expired; log in again"
		return
	case "RequestTimeTooSkewed":
		e.kind, e.Hint = objstore.ErrUnavailable, "set this machine's clock"
		return
	case "XAdminUserNotFound", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthorizationHeaderMalformed":
		e.kind, e.Hint = objstore.ErrUnavailable, b.credentialsHint(response)
		return
	}
	switch e.Status {
	case http.StatusNotFound:
		if e.Code == "NoSuchKey" || e.Code == "NotFound" {
			e.kind = objstore.ErrNotFound
		}
	case http.StatusPreconditionFailed:
		e.kind = objstore.ErrPrecondition
	case http.StatusMovedPermanently, http.StatusTemporaryRedirect:
		e.kind, e.Hint = objstore.ErrUnavailable, b.credentialsHint(response)
	case http.StatusUnauthorized, http.StatusForbidden:
		e.kind = objstore.ErrUnavailable
		e.Hint = "the credentials (" + b.credentials + ") may not do this; the role needs s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket (without the last, a missing key looks forbidden), and kms:GenerateDataKey and kms:Decrypt with a KMS key"
	default:
		if e.Status >= 500 || e.Status == http.StatusTooManyRequests {
			e.kind, e.Hint = objstore.ErrUnavailable, fmt.Sprintf("the store failed after up to %d attempts; try again later", b.maxAttempts)
		}
	}
}

// credentialsHint names the bucket's region where the answer tells it: signing
// for another one is the usual cause.
func (b *Bucket) credentialsHint(response *awshttp.ResponseError) string {
	if response != nil && response.Response != nil {
		if region := response.Response.Header.Get("X-Amz-Bucket-Region"); region != "" && region != b.region {
			return "the bucket is in " + region + "; set AWS_REGION=" + region
		}
	}
	return "check the keys (" + b.credentials + "), the region (" + b.region + ") and the endpoint"
}

func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

func status(err error) int {
	var response *awshttp.ResponseError
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}

func apiMessage(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorMessage()
	}
	return ""
}

// rootMessage drops the SDK's layers ("operation error S3: PutObject, exceeded
// maximum number of attempts, …") from an error that no answer came to.
func rootMessage(err error) string {
	var send *awshttp.ResponseError
	if errors.As(err, &send) {
		return send.Err.Error()
	}
	var op *smithy.OperationError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

// noSuchUpload is true where the parts of an upload are gone, as when it was
// completed already.
func noSuchUpload(err error) bool { return code(err) == "NoSuchUpload" }

// conflict is true for the race that the store wants tried again.
func conflict(err error) bool {
	return code(err) == "ConditionalRequestConflict" || status(err) == http.StatusConflict && code(err) == "OperationAborted"
}
