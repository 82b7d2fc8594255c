package teachers_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// batchOrder makes an order of n questions and the client that places it.
func batchOrder(t *testing.T, api, url string, n int) (*teachers.BatchClient, *teachers.BatchOrder) {
	t.Helper()
	config := &teachers.Config{ID: "t", API: teachers.OnlineAPI(api), BaseURL: url, Model: "m", Key: func() (string, error) { return "sk-batch-0123456789abcdef", nil }}
	client, err := teachers.NewBatchClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	builder, err := teachers.NewBuilder(config, map[string]any{"max_tokens": 64})
	if err != nil {
		t.Fatal(err)
	}
	var file []byte
	for i := range n {
		question := fmt.Sprintf("question %d", i)
		request, err := builder.Request(&chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: &question}}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if file, err = client.AppendRow(context.Background(), file, fmt.Sprintf("row-%d", i), request); err != nil {
			t.Fatal(err)
		}
	}
	return client, &teachers.BatchOrder{
		Key: strings.Repeat("ab", 16), Rows: n, Size: int64(len(file)), Window: 24 * time.Hour,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file)), nil },
	}
}

func echo(r teacherstest.Request) teacherstest.Reply {
	return teacherstest.Reply{Content: "answer to " + r.Prompt, Reasoning: "hm"}
}

// place uploads and submits an order.
func place(t *testing.T, client *teachers.BatchClient, order *teachers.BatchOrder) *teachers.Batch {
	t.Helper()
	file, err := client.Upload(context.Background(), order)
	if err != nil {
		t.Fatal(err)
	}
	order.File = file
	batch, err := client.Create(context.Background(), order)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

// await looks at a batch until it has ended.
func await(t *testing.T, client *teachers.BatchClient, id string) *teachers.Batch {
	t.Helper()
	for range 10 {
		batch, err := client.Status(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		if batch.Ended != "" {
			return batch
		}
	}
	t.Fatal("the batch does not end")
	return nil
}

// texts fetches and reads all files of a batch: what each row says, by custom id.
func texts(t *testing.T, client *teachers.BatchClient, batch *teachers.Batch) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, f := range batch.Files {
		var file bytes.Buffer
		if _, err := client.Fetch(context.Background(), batch, f, &file); err != nil {
			t.Fatal(err)
		}
		err := client.Read(&file, func(row *teachers.BatchRow) error {
			if row.Failure != nil {
				out[row.CustomID] = row.Failure.Class + ": " + row.Failure.Excerpt
				return nil
			}
			answer, err := teachers.Parse(row.Format, row.Body)
			if err != nil {
				t.Fatalf("%s: %v", row.Raw, err)
			}
			out[row.CustomID] = *answer.Message.ReasoningContent + " " + *answer.Message.Content
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestBatchRoundTrip(t *testing.T) {
	for _, api := range []string{teachers.APIOpenAIBatch, teachers.APIAnthropicBatch} {
		t.Run(api, func(t *testing.T) {
			server := teacherstest.NewBatch(t, func(r teacherstest.Request) teacherstest.Reply {
				if r.Prompt == "question 1" {
					return teacherstest.Reply{Status: http.StatusBadRequest, Message: "prompt is too long", Type: "invalid_request_error"}
				}
				return echo(r)
			}, teacherstest.BatchOptions{})
			client, order := batchOrder(t, api, server.URL, 3)
			batch := await(t, client, place(t, client, order).ID)
			if batch.Ended != teachers.BatchCompleted || batch.Total != 3 || batch.Done != 2 || batch.Failed != 1 {
				t.Errorf("%+v", batch)
			}
			got := texts(t, client, batch)
			want := map[string]string{"row-0": "hm answer to question 0", "row-1": "context_overflow: prompt is too long", "row-2": "hm answer to question 2"}
			for id, text := range want {
				if got[id] != text {
					t.Errorf("%s says %q, want %q", id, got[id], text)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%v", got)
			}
		})
	}
}

// The answer to a submission is lost: the order is found again, by its key
// where the API keeps one, else by its rows.
func TestALostSubmissionIsFound(t *testing.T) {
	for _, api := range []string{teachers.APIOpenAIBatch, teachers.APIAnthropicBatch} {
		t.Run(api, func(t *testing.T) {
			server := teacherstest.NewBatch(t, echo, teacherstest.BatchOptions{Fault: func(op string, n int) teacherstest.BatchFault {
				return teacherstest.BatchFault{After: op == teacherstest.OpSubmit && n == 3}
			}})
			client, order := batchOrder(t, api, server.URL, 4)
			for range 3 { // others, older ones, of other sizes
				other, more := batchOrder(t, api, server.URL, 5)
				more.Key = strings.Repeat("cd", 16)
				place(t, other, more)
			}
			since := time.Now()
			file, err := client.Upload(context.Background(), order)
			if err != nil {
				t.Fatal(err)
			}
			order.File = file
			_, err = client.Create(context.Background(), order)
			if err == nil || teachers.Refused(err) {
				t.Fatalf("a lost answer is %v, and must not look like a no", err)
			}
			sure, maybe, err := client.Find(context.Background(), order, since)
			if err != nil {
				t.Fatal(err)
			}
			found := append(sure, maybe...)
			if len(found) != 1 || (api == teachers.APIOpenAIBatch) != (len(sure) == 1) {
				t.Fatalf("found %d sure and %d others", len(sure), len(maybe))
			}
			if got := texts(t, client, await(t, client, found[0].ID)); len(got) != 4 || got["row-3"] != "hm answer to question 3" {
				t.Errorf("%v", got)
			}
			if s := server.Stats(); s.Submitted != 4 || s.SubmittedTwice != 0 && api == teachers.APIAnthropicBatch && s.SubmittedTwice > 14 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestAnUploadIsFound(t *testing.T) {
	server := teacherstest.NewBatch(t, echo, teacherstest.BatchOptions{Fault: func(op string, n int) teacherstest.BatchFault {
		return teacherstest.BatchFault{After: op == teacherstest.OpUpload && n == 2}
	}})
	client, order := batchOrder(t, teachers.APIOpenAIBatch, server.URL, 2)
	if id, err := client.FindUpload(context.Background(), order); id != "" || err != nil {
		t.Errorf("%q %v before the upload", id, err)
	}
	for range 2 {
		other := *order
		other.Key = strings.Repeat("cd", 16)
		if _, err := client.Upload(context.Background(), &other); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Upload(context.Background(), order); err == nil {
		t.Fatal("the answer was lost")
	}
	id, err := client.FindUpload(context.Background(), order)
	if err != nil || id == "" {
		t.Fatalf("%q %v", id, err)
	}
	if order.File = id; order.File != "" {
		if _, err := client.Create(context.Background(), order); err != nil {
			t.Error(err)
		}
	}
	if err := client.Discard(context.Background(), id); err != nil {
		t.Error(err)
	}
	if err := client.Discard(context.Background(), id); err != nil {
		t.Errorf("a file that is gone: %v", err)
	}
}

func TestWhatRefusesASubmission(t *testing.T) {
	for _, test := range []struct {
		fault   teacherstest.BatchFault
		refused bool
		class   string
	}{
		{teacherstest.BatchFault{Status: 400, Message: "no such file"}, true, teachers.ClassBadRequest},
		{teacherstest.BatchFault{Status: 401, Message: "wrong key"}, true, teachers.ClassAuth},
		{teacherstest.BatchFault{Status: 402, Message: "pay first"}, true, teachers.ClassQuota},
		{teacherstest.BatchFault{Status: 429, Message: "enqueued token limit reached", Retry: time.Second}, true, teachers.ClassRateLimited},
		{teacherstest.BatchFault{Status: 408}, false, teachers.ClassTimeout},
		{teacherstest.BatchFault{Status: 409}, false, teachers.ClassServer},
		{teacherstest.BatchFault{Status: 500}, false, teachers.ClassServer},
		{teacherstest.BatchFault{Status: 503}, false, teachers.ClassOverloaded},
		{teacherstest.BatchFault{Before: true}, false, teachers.ClassNetwork},
		{teacherstest.BatchFault{After: true}, false, teachers.ClassNetwork},
	} {
		server := teacherstest.NewBatch(t, echo, teacherstest.BatchOptions{Fault: func(op string, _ int) teacherstest.BatchFault {
			if op == teacherstest.OpSubmit {
				return test.fault
			}
			return teacherstest.BatchFault{}
		}})
		client, order := batchOrder(t, teachers.APIOpenAIBatch, server.URL, 1)
		order.File, _ = client.Upload(context.Background(), order)
		_, err := client.Create(context.Background(), order)
		var e *teachers.Error
		if !errors.As(err, &e) || teachers.Refused(err) != test.refused || e.Class != test.class {
			t.Errorf("%+v: %v, refused %v, want %v %v", test.fault, err, teachers.Refused(err), test.class, test.refused)
		}
		if strings.Contains(fmt.Sprint(err), "sk-batch") {
			t.Errorf("the key is in %v", err)
		}
	}
	client, order := batchOrder(t, teachers.APIOpenAIBatch, "http://example.com/v1", 1) // in the clear
	if _, err := client.Create(context.Background(), order); !teachers.Refused(err) {
		t.Errorf("what was never sent is refused: %v", err)
	}
}

func TestEndsOfABatch(t *testing.T) {
	for _, test := range []struct {
		outcome  teacherstest.Outcome
		answered int
		class    string // of the rest
	}{
		{teacherstest.Outcome{State: "expired", Done: 3}, 3, teachers.ClassExpired},
		{teacherstest.Outcome{State: "cancelled", Done: 1}, 1, teachers.ClassCancelled},
		{teacherstest.Outcome{State: "expired"}, 0, teachers.ClassExpired},
		{teacherstest.Outcome{}, 5, ""},
	} {
		for _, api := range []string{teachers.APIOpenAIBatch, teachers.APIAnthropicBatch} {
			server := teacherstest.NewBatch(t, echo, teacherstest.BatchOptions{End: func(teacherstest.BatchJob) teacherstest.Outcome { return test.outcome }})
			client, order := batchOrder(t, api, server.URL, 5)
			batch := await(t, client, place(t, client, order).ID)
			want := test.outcome.State
			if want == "" {
				want = "completed"
			}
			answered := 0
			for id, text := range texts(t, client, batch) {
				if strings.HasPrefix(text, "hm answer") {
					answered++
				} else if !strings.HasPrefix(text, test.class+": ") {
					t.Errorf("%s %s says %q", api, id, text)
				}
			}
			if batch.Ended != want || answered != test.answered {
				t.Errorf("%s: %s with %d answers, want %s with %d", api, batch.Ended, answered, want, test.answered)
			}
		}
	}
}

func TestAFailedBatchNamesTheLine(t *testing.T) {
	for _, test := range []struct {
		outcome teacherstest.Outcome
		class   string
	}{
		{teacherstest.Outcome{State: "failed", Line: 2, Code: "invalid_json_line", Reason: "This line is not parseable as valid JSON."}, teachers.ClassBadRequest},
		{teacherstest.Outcome{State: "failed", Code: "token_limit_exceeded", Reason: "Enqueued token limit reached"}, teachers.ClassRateLimited},
		{teacherstest.Outcome{State: "failed", Code: "billing_hard_limit_reached", Reason: "Billing hard limit has been reached"}, teachers.ClassQuota},
		{teacherstest.Outcome{State: "failed", Code: "model_not_found", Reason: "The provided model 'm' is not supported"}, teachers.ClassNotFound},
	} {
		server := teacherstest.NewBatch(t, echo, teacherstest.BatchOptions{End: func(teacherstest.BatchJob) teacherstest.Outcome { return test.outcome }})
		client, order := batchOrder(t, teachers.APIOpenAIBatch, server.URL, 3)
		batch := await(t, client, place(t, client, order).ID)
		if len(batch.Errors) != 1 || batch.Errors[0].Line != test.outcome.Line || batch.Errors[0].Class != test.class || batch.Errors[0].Message != test.outcome.Reason || len(batch.Files) != 0 {
			t.Errorf("%+v: %+v", test.outcome, batch)
		}
	}
}

func TestCancelABatch(t *testing.T) {
	for _, api := range []string{teachers.APIOpenAIBatch, teachers.APIAnthropicBatch} {
		server := teacherstest.NewBatch(t, echo, teacherstest.BatchOptions{Polls: 5})
		client, order := batchOrder(t, api, server.URL, 6)
		id := place(t, client, order).ID
		if err := client.Cancel(context.Background(), id); err != nil {
			t.Fatal(err)
		}
		if batch := await(t, client, id); batch.Ended != teachers.BatchCancelled || batch.Done != 3 {
			t.Errorf("%s: %+v", api, batch)
		}
		if err := client.Cancel(context.Background(), id); err != nil {
			t.Errorf("%s: a batch that has ended: %v", api, err)
		}
		if err := client.Cancel(context.Background(), "batch_unknown"); err == nil {
			t.Errorf("%s: a batch that is not there was cancelled", api)
		}
	}
}

func TestAFileOfResultsThatBreaksOff(t *testing.T) {
	faults := []teacherstest.BatchFault{{Break: 0.5}, {Before: true}, {Status: 500}, {Cut: 0.5}, {}}
	server := teacherstest.NewBatch(t, echo, teacherstest.BatchOptions{Fault: func(op string, n int) teacherstest.BatchFault {
		if op == teacherstest.OpResult {
			return faults[n]
		}
		return teacherstest.BatchFault{}
	}})
	client, order := batchOrder(t, teachers.APIOpenAIBatch, server.URL, 9)
	batch := await(t, client, place(t, client, order).ID)
	for _, want := range []string{teachers.ClassNetwork, teachers.ClassNetwork, teachers.ClassServer} {
		var e *teachers.Error
		if _, err := client.Fetch(context.Background(), batch, batch.Files[0], io.Discard); !errors.As(err, &e) || e.Class != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	var file bytes.Buffer
	if _, err := client.Fetch(context.Background(), batch, batch.Files[0], &file); err != nil {
		t.Fatal(err)
	}
	rows := 0
	err := client.Read(&file, func(*teachers.BatchRow) error { rows++; return nil })
	if !errors.Is(err, teachers.ErrCutLine) || rows != 4 {
		t.Errorf("%d rows and %v of half a file", rows, err)
	}
	if got := texts(t, client, batch); len(got) != 9 {
		t.Errorf("%v", got)
	}
}

func TestBatchLimitsOfVendors(t *testing.T) {
	var got []string
	for _, c := range []struct{ api, url string }{
		{teachers.APIOpenAIBatch, "https://api.openai.com/v1"}, {teachers.APIOpenAIBatch, "https://api.moonshot.ai/v1"},
		{teachers.APIAnthropicBatch, "https://api.anthropic.com/v1"},
	} {
		client, err := teachers.NewBatchClient(&teachers.Config{API: c.api, BaseURL: c.url, Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		l := client.Limits()
		got = append(got, fmt.Sprintf("%d %d", l.Rows, l.Bytes))
	}
	if want := []string{"50000 200000000", "50000 100000000", "100000 256000000"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if _, err := teachers.NewBatchClient(&teachers.Config{API: "recorded"}); err == nil {
		t.Error("recorded answers have no batch API")
	}
}
