// Package awssecrets reads secrets of the AWS Secrets Manager. It is the one
// door through which that service's client comes in; what is read goes to a
// secrets.Keyring and nowhere else.
//
//	ring := secrets.New(secrets.Options{Lookup: os.LookupEnv, Fetch: awssecrets.New().Fetch})
//
// Region, endpoint and credentials are those of the environment, as for the
// store: AWS_REGION, AWS_PROFILE, the machine's role; an ARN brings its own
// region. Nothing is read before the first secret is asked for.
package awssecrets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
)

// A Fetcher reads secrets. It is safe for concurrent use.
type Fetcher struct {
	mu     sync.Mutex
	loaded *aws.Config
}

// New makes a fetcher; nothing is read yet.
func New() *Fetcher { return &Fetcher{} }

// An Error is a secret that could not be read. It never holds one.
type Error struct {
	what      string
	temporary bool
	cause     error
}

// Error says what the service or the settings said.
func (e *Error) Error() string { return e.what }

// Unwrap gives the service's error.
func (e *Error) Unwrap() error { return e.cause }

// Temporary tells whether the same request may work later: the network failed,
// or the service was busy.
func (e *Error) Temporary() bool { return e.temporary }

// Fetch reads the current version of a secret by its name or ARN, as text. Its
// errors are of type *Error, or the context's.
func (f *Fetcher) Fetch(ctx context.Context, name string) (string, error) {
	cfg, err := f.config(ctx)
	if err != nil {
		return "", err
	}
	client := secretsmanager.NewFromConfig(*cfg, func(o *secretsmanager.Options) {
		if region := regionOf(name); region != "" {
			o.Region = region
		}
	})
	if region := client.Options().Region; region == "" {
		return "", &Error{what: "no region is set; set AWS_REGION, or write the secret's ARN"}
	}
	out, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: aws.String(name)})
	if err != nil {
		return "", failed(ctx, client.Options().Region, err)
	}
	if out.SecretString != nil {
		return *out.SecretString, nil
	}
	return string(out.SecretBinary), nil
}

// config loads the settings once; a failure is tried again.
func (f *Fetcher) config(ctx context.Context) (*aws.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.loaded != nil {
		return f.loaded, nil
	}
	// The SDK's remarks would go to stderr, across the progress bars.
	cfg, err := config.LoadDefaultConfig(ctx, config.WithLogger(logging.Nop{}))
	if err != nil {
		return nil, &Error{what: fmt.Sprintf("read the AWS settings: %v; see AWS_PROFILE, ~/.aws/config and ~/.aws/credentials", err), cause: err}
	}
	f.loaded = &cfg
	return f.loaded, nil
}

// regionOf is the region of an ARN, "" for a name.
func regionOf(name string) string {
	parts := strings.SplitN(name, ":", 6)
	if len(parts) < 6 || parts[0] != "arn" {
		return ""
	}
	return parts[3]
}

func failed(ctx context.Context, region string, err error) error {
	if ctx.Err() != nil {
		return &Error{what: "the AWS Secrets Manager did not answer in time", temporary: true, cause: ctx.Err()}
	}
	var api smithy.APIError
	if !errors.As(err, &api) && strings.Contains(err.Error(), "get identity") {
		return &Error{what: "there are no AWS credentials on this machine; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role is given", cause: err}
	}
	if api == nil {
		return &Error{what: fmt.Sprintf("the AWS Secrets Manager in %s cannot be asked: %v", region, err), temporary: true, cause: err}
	}
	what := fmt.Sprintf("the AWS Secrets Manager in %s says %s: %s", region, api.ErrorCode(), api.ErrorMessage())
	switch api.ErrorCode() {
	case "ResourceNotFoundException", "AccessDeniedException", "InvalidRequestException", "InvalidParameterException", "DecryptionFailure",
		"UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException", "InvalidClientTokenId":
		return &Error{what: what, cause: err}
	}
	return &Error{what: what, temporary: true, cause: err}
}
