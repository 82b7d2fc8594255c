package s3

import (
	"context"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const acceptEncoding = "Accept-Encoding"

// leaveAcceptEncodingUnsigned takes that header out of what is signed, and puts
// it back behind the signature: proxies and Google's store change it on the way,
// and then refuse the signature (aws-sdk-go-v2#1816). What it asks for, that
// bodies come as they are, is not weakened: a body is held against its checksum.
func leaveAcceptEncodingUnsigned(stack *middleware.Stack) error {
	if _, ok := stack.Finalize.Get("Signing"); !ok {
		return nil
	}
	var kept []string
	if err := stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("HideAcceptEncoding",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			if r, ok := in.Request.(*smithyhttp.Request); ok {
				kept = r.Header.Values(acceptEncoding)
				r.Header.Del(acceptEncoding)
			}
			return next.HandleFinalize(ctx, in)
		}), "Signing", middleware.Before); err != nil {
		return err
	}
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("ShowAcceptEncoding",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			if r, ok := in.Request.(*smithyhttp.Request); ok {
				for _, v := range kept {
					r.Header.Add(acceptEncoding, v)
				}
			}
			return next.HandleFinalize(ctx, in)
		}), "Signing", middleware.After)
}
