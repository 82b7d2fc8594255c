package teachers

import (
	"context"
	"net/http"
)

// ReadProbeResponses reads what an endpoint answers to a probe's requests, for
// fuzzing: no retries, no waits.
func ReadProbeResponses(ctx context.Context, c *Config, rt http.RoundTripper) {
	client := NewClient(c, WithTransport(rt))
	list := client.listModels(ctx)
	list.near(c.Model)
	var used string
	if reply, err := client.attempt(ctx, []byte(`{}`), &used); err == nil {
		usagePlace(reply.Format, reply.Raw)
	}
}
