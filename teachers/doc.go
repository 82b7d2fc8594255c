// Package teachers asks teacher models and reads what they answer, on any
// endpoint and under any fault, without losing an answer or paying for one
// twice.
//
// A [Config] is one teacher as a worker uses it. A [Builder] turns prompts into
// [Request] values, whose Body is canonical so that an ask has an identity; a
// [Client] asks them:
//
//	builder, err := teachers.NewBuilder(config, params)
//	request, err := builder.Request(prompt, sample)
//	client := teachers.NewClient(config)
//	defer client.Close()
//	reply, err := client.Ask(ctx, request) // waits for permits, retries, obeys Retry-After
//	// make reply.Raw and reply.Format durable here, then:
//	answer, err := reply.Parse()
//
// Ask returns a reply only when the endpoint said how the answer ended; a cut
// stream, an error inside a 200 and an empty body are an [Error], whatever the
// status. The raw bytes are what is kept: [Parse] is pure, so that a better
// parser can read them again later without asking anybody.
//
// Wire forms are dialects. A dialect is one file; how endpoints of one dialect
// differ is data, a [Profile].
package teachers
