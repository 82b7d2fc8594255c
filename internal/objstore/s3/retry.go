package s3

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

const (
	// dialAttempts bounds the tries where nothing listens at all: about 2 s,
	// enough for a store that restarts, short enough for a wrong address.
	dialAttempts = 7
	// connections per host: as many small objects at once as a build moves.
	connections = 128
	// headerTimeout must outlast the completion of a large upload, for which
	// some stores copy all parts before they answer.
	headerTimeout = 5 * time.Minute

	backoffBase = 50 * time.Millisecond
	backoffMax  = 20 * time.Second
	slowDown    = time.Second // first pause after the store said that it is too much
)

// backoff gives the pause after the attempt-th failure (from 1).
type backoff func(attempt int, err error) time.Duration

// newBackoff doubles from 50 ms, or 1 s where the store throttles, to 20 s,
// and takes a random part of that (full jitter, as in Amazon's "Exponential
// Backoff And Jitter").
func newBackoff() backoff {
	throttled := retry.IsErrorThrottles(retry.DefaultThrottles)
	return func(attempt int, err error) time.Duration {
		base := backoffBase
		if throttled.IsErrorThrottle(err) == aws.TrueTernary {
			base = slowDown
		}
		limit := min(base<<min(attempt-1, 16), backoffMax)
		return rand.N(limit) + 1
	}
}

// A retryer is the SDK's standard one without its quota, which many writers at
// once would use up, and with an earlier end where nothing listens.
type retryer struct {
	*retry.Standard
	backoff backoff
}

func newRetryer(maxAttempts int, pause backoff, embedded bool) aws.Retryer {
	return &retryer{backoff: pause, Standard: retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = maxAttempts
		o.RateLimiter = ratelimit.None
		// An answer that was cut is one that did not come.
		o.Retryables = append(o.Retryables, retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return aws.TrueTernary
			}
			return aws.UnknownTernary
		}))
		if embedded {
			// The gateway reads what is left of a refused request as the next
			// one on that connection, and answers this to whoever sent a good
			// one after it.
			o.Retryables = append(o.Retryables, retry.RetryableErrorCode{Codes: map[string]struct{}{"BadRequest": {}}})
		}
	})}
}

// RetryDelay implements aws.Retryer. Its error ends the attempts.
func (r *retryer) RetryDelay(attempt int, err error) (time.Duration, error) {
	if attempt >= dialAttempts && neverConnected(err) {
		return 0, err
	}
	return r.backoff(attempt, err), nil
}

// pause waits before the next try of something that the SDK does not retry.
func (b *Bucket) pause(ctx context.Context, attempt int, err error) error {
	timer := time.NewTimer(b.backoff(attempt, err))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func newHTTPClient(options ...func(*http.Transport)) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns = connections
		t.MaxIdleConnsPerHost = connections
		t.ResponseHeaderTimeout = headerTimeout
		for _, option := range options {
			option(t)
		}
	})
}

func withoutProxy(t *http.Transport) { t.Proxy = nil }
