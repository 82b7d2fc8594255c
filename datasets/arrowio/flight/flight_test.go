package flight_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/array"
	arrowflight "github.com/apache/arrow/go/v17/arrow/flight"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/arrowio/flight"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

const token = "0123456789abcdef0123456789abcdef"

// A house is a catalog with one dataset, maths, and a server over it.
type house struct {
	bucket *mem.Bucket
	c      *catalog.Catalog
	server *flight.Server
	client arrowflight.FlightServiceClient
}

func rows(from, n int, teacher string) []datasets.Row {
	out := make([]datasets.Row, n)
	for i := range out {
		out[i] = datasets.Row{
			PromptID: fmt.Sprintf("%06d", from+i), SampleID: fmt.Sprintf("s%d", from+i), Teacher: teacher,
			Messages: []chat.Message{{Role: "user", Content: chat.Text(fmt.Sprintf("question %d", from+i))}, {Role: "assistant", Content: chat.Text("answer"), Train: true}},
		}
	}
	return out
}

// publish adds a version of maths.
func publish(t *testing.T, c *catalog.Catalog, build string, terms map[string]string, tables map[string][][]datasets.Row) {
	t.Helper()
	m := catalog.Manifest{Dataset: "maths", BuildID: build, CreatedAt: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)}
	for id, training := range terms {
		m.Teachers = append(m.Teachers, catalog.ManifestTeacher{ID: id, Model: id, Terms: catalog.Terms{Training: training}})
	}
	for table, files := range tables {
		for i, rows := range files {
			path := filepath.Join(t.TempDir(), "f")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			w, err := parquetio.NewWriter[datasets.Row](f, parquetio.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.Write(rows), w.Close(), f.Close()); err != nil {
				t.Fatal(err)
			}
			ref, err := c.Stage(t.Context(), "maths", build, table, table, i, path)
			if err != nil {
				t.Fatal(err)
			}
			m.Files = append(m.Files, ref)
		}
	}
	if _, err := c.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, streams int) *house {
	t.Helper()
	b := mem.New("b")
	h := &house{bucket: b, c: catalog.Open(b)}
	var err error
	if h.server, err = flight.New(h.c, flight.Options{Token: token, Streams: streams}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- h.server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		h.server.Stop(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	h.client = dial(t, l.Addr().String())
	return h
}

func dial(t *testing.T, address string) arrowflight.FlightServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return arrowflight.NewClientFromConn(conn, nil)
}

// usual has two train files, one of them of 700 rows, and one of test.
func usual(t *testing.T) *house {
	h := open(t, 4)
	publish(t, h.c, "b1", map[string]string{"k3": catalog.TrainingAllowed}, map[string][][]datasets.Row{
		"train": {rows(0, 700, "k3"), rows(700, 300, "k3")}, "test": {rows(1000, 5, "k3")},
	})
	return h
}

func with(t *testing.T) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
}

func path(parts ...string) *arrowflight.FlightDescriptor {
	return &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorPATH, Path: parts}
}

func command(text string) *arrowflight.FlightDescriptor {
	return &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorCMD, Cmd: []byte(text)}
}

// questions reads a ticket's rows: the first message of each.
func (h *house) questions(ctx context.Context, ticket *arrowflight.Ticket) (out []string, batches []int64, err error) {
	stream, err := h.client.DoGet(ctx, ticket)
	if err != nil {
		return nil, nil, err
	}
	r, err := arrowflight.NewRecordReader(stream)
	if err != nil {
		return nil, nil, err
	}
	defer r.Release()
	for r.Next() {
		messages := r.Record().Column(0).(*array.List)
		content := messages.ListValues().(*array.Struct).Field(1).(*array.String)
		for i := range messages.Len() {
			start, _ := messages.ValueOffsets(i)
			out = append(out, strings.Clone(content.Value(int(start))))
		}
		batches = append(batches, r.Record().NumRows())
	}
	return out, batches, r.Err()
}

func question(from, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("question %d", from+i))
	}
	return out
}

func TestAFlightStreamsEveryFileOfASplit(t *testing.T) {
	h := usual(t)
	info, err := h.client.GetFlightInfo(with(t), path("maths", "messages", "train"))
	if err != nil {
		t.Fatal(err)
	}
	if info.TotalRecords != 1000 || len(info.Endpoint) != 2 || !info.Ordered || len(info.Endpoint[0].Location) != 0 {
		t.Errorf("flight info: %v", info)
	}
	var got []string
	for _, e := range info.Endpoint {
		some, _, err := h.questions(with(t), e.Ticket)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, some...)
	}
	if diff := cmp.Diff(question(0, 1000), got); diff != "" {
		t.Error(diff)
	}
	want := flight.Stats{Whole: 2, Rows: 1000}
	stats := h.server.Stats()
	if stats.Bytes == 0 {
		t.Error("no bytes are counted")
	}
	stats.Bytes = 0
	if stats != want {
		t.Errorf("stats %+v, want %+v", stats, want)
	}
}

func TestDefaultsAndTheCommandAreThePath(t *testing.T) {
	h := usual(t)
	want, err := h.client.GetFlightInfo(with(t), path("maths", "messages", "train"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []*arrowflight.FlightDescriptor{path("maths"), path("maths@1", "messages"), command(`{"ref": "maths"}`)} {
		got, err := h.client.GetFlightInfo(with(t), d)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range got.Endpoint {
			if string(e.Ticket.Ticket) != string(want.Endpoint[i].Ticket.Ticket) {
				t.Errorf("%v has another ticket", d)
			}
		}
	}
	info, err := h.client.GetFlightInfo(with(t), command(`{"ref": "maths", "batch_rows": 250}`))
	if err != nil {
		t.Fatal(err)
	}
	_, batches, err := h.questions(with(t), info.Endpoint[0].Ticket)
	if err != nil || !slices.Equal(batches, []int64{250, 250, 200}) {
		t.Errorf("batches of %v rows, %v", batches, err)
	}
}

func TestTheListHasWhatMayBeRead(t *testing.T) {
	h := usual(t)
	for expression, want := range map[string]bool{"": true, "maths": true, "other": false} {
		stream, err := h.client.ListFlights(with(t), &arrowflight.Criteria{Expression: []byte(expression)})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			info, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.Join(info.FlightDescriptor.Path, " "))
			schema, err := h.client.GetSchema(with(t), info.FlightDescriptor)
			if err != nil || string(schema.Schema) != string(info.Schema) {
				t.Errorf("%v has another schema, %v", info.FlightDescriptor, err)
			}
		}
		if slices.Contains(got, "maths@1 messages train") != want || slices.Contains(got, "maths@1 messages test") != want {
			t.Errorf("%q lists %v", expression, got)
		}
		if !want && len(got) > 0 {
			t.Errorf("%q lists %v", expression, got)
		}
	}
}

func TestEveryCallNeedsTheToken(t *testing.T) {
	h := usual(t)
	info, err := h.client.GetFlightInfo(with(t), path("maths"))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong", token, "Basic " + token, "Bearer " + token + "0", "Bearer " + token[:31]} {
		ctx := t.Context()
		if header != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", header)
		}
		_, infoErr := h.client.GetFlightInfo(ctx, path("maths"))
		_, schemaErr := h.client.GetSchema(ctx, path("maths"))
		_, _, getErr := h.questions(ctx, info.Endpoint[0].Ticket)
		list, err := h.client.ListFlights(ctx, &arrowflight.Criteria{})
		if err != nil {
			t.Fatal(err)
		}
		_, listErr := list.Recv()
		actions, err := h.client.DoAction(ctx, &arrowflight.Action{Type: "stats"})
		if err != nil {
			t.Fatal(err)
		}
		_, actionErr := actions.Recv()
		for _, err := range []error{infoErr, schemaErr, getErr, listErr, actionErr} {
			if status.Code(err) != codes.Unauthenticated || strings.Contains(fmt.Sprint(err), token) {
				t.Errorf("with %q: %v", header, err)
			}
		}
	}
}

func TestNothingCanBeWritten(t *testing.T) {
	h := usual(t)
	put, err := h.client.DoPut(with(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := put.Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("DoPut: %v", err)
	}
	exchange, err := h.client.DoExchange(with(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exchange.Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("DoExchange: %v", err)
	}
	action, err := h.client.DoAction(with(t), &arrowflight.Action{Type: "drop"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := action.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("DoAction: %v", err)
	}
}

func TestStatsAreAnAction(t *testing.T) {
	h := usual(t)
	list, err := h.client.ListActions(with(t), &arrowflight.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := list.Recv(); err != nil || a.Type != "stats" {
		t.Errorf("%v, %v", a, err)
	}
	action, err := h.client.DoAction(with(t), &arrowflight.Action{Type: "stats"})
	if err != nil {
		t.Fatal(err)
	}
	result, err := action.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var stats flight.Stats
	if err := json.Unmarshal(result.Body, &stats); err != nil || stats != h.server.Stats() {
		t.Errorf("%s, %v", result.Body, err)
	}
}

func TestAChangedTicketIsRefused(t *testing.T) {
	h := usual(t)
	info, err := h.client.GetFlightInfo(with(t), path("maths"))
	if err != nil {
		t.Fatal(err)
	}
	good := info.Endpoint[0].Ticket.Ticket
	bad := map[string][]byte{"": nil, "short": good[:20], "cut": good[:len(good)-1], "longer": append(slices.Clone(good), ' ')}
	for i := range good {
		one := slices.Clone(good)
		one[i] ^= 1
		bad[fmt.Sprintf("bit of byte %d", i)] = one
	}
	other, err := flight.New(h.c, flight.Options{Token: strings.Repeat("x", 32)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- other.Serve(l) }()
	foreign, err := dial(t, l.Addr().String()).GetFlightInfo(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+strings.Repeat("x", 32)), path("maths"))
	if err != nil {
		t.Fatal(err)
	}
	other.Stop(t.Context())
	if err := <-served; err != nil {
		t.Error(err)
	}
	bad["of another server"] = foreign.Endpoint[0].Ticket.Ticket
	for name, ticket := range bad {
		_, _, err := h.questions(with(t), &arrowflight.Ticket{Ticket: ticket})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsAskedForWrongIsAnErrorThatSaysSo(t *testing.T) {
	h := usual(t)
	publish(t, h.c, "b2", map[string]string{"k3": catalog.TrainingAllowed, "closed": catalog.TrainingForbidden}, map[string][][]datasets.Row{
		"train": {rows(0, 3, "k3"), rows(3, 2, "closed")},
	})
	for _, c := range []struct {
		d    *arrowflight.FlightDescriptor
		code codes.Code
		says string
	}{
		{nil, codes.InvalidArgument, "a descriptor has a path, or a command"},
		{path(), codes.InvalidArgument, "this one has 0 parts"},
		{path("a", "b", "c", "d"), codes.InvalidArgument, "this one has 4 parts"},
		{path(""), codes.InvalidArgument, "no ref"},
		{path(strings.Repeat("m", 5000)), codes.InvalidArgument, "too long"},
		{path("maths@1", "mesages"), codes.InvalidArgument, "unknown view"},
		{path("maths@1", "messages", "dev"), codes.InvalidArgument, "there are: train, test"},
		{path("nothing"), codes.NotFound, "datasets there: maths"},
		{path("maths@9"), codes.NotFound, "no such version"},
		{path("../x"), codes.InvalidArgument, "invalid"},
		{path("maths@1", "preference"), codes.NotFound, "no rows of split train"},
		{path("maths@2", "messages", "train"), codes.PermissionDenied, "terms forbid training on the answers of closed"},
		{command("maths"), codes.InvalidArgument, "not the JSON"},
		{command(`{"ref": "maths@1"} {}`), codes.InvalidArgument, "more after it"},
		{command(`{"ref": "maths@1", "veiw": "messages"}`), codes.InvalidArgument, `"veiw"`},
		{command(`{"ref": "maths@1", "batch_rows": -1}`), codes.InvalidArgument, "batch_rows -1"},
		{command(`{"ref": "maths@1", "batch_bytes": 999999999}`), codes.InvalidArgument, "batch_bytes 999999999"},
		{command(`{"ref": "maths@1", "leave_out": ["all"]}`), codes.InvalidArgument, `leave_out "all"`},
		{command(`{"ref": "maths@1", "reasoning": "sideways"}`), codes.InvalidArgument, "reasoning"},
		{command(`{"ref": "` + strings.Repeat("m", 20000) + `"}`), codes.InvalidArgument, "more than 16384"},
	} {
		_, err := h.client.GetFlightInfo(with(t), c.d)
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.says) {
			t.Errorf("%v: %v, want %v with %q", c.d, err, c.code, c.says)
		}
		if _, err := h.client.GetSchema(with(t), c.d); status.Code(err) != c.code {
			t.Errorf("schema of %v: %v, want %v", c.d, err, c.code)
		}
	}
	// Left out, the rest may go.
	info, err := h.client.GetFlightInfo(with(t), command(`{"ref": "maths@2", "leave_out": ["forbidden"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if info.TotalRecords != -1 {
		t.Errorf("%d rows are promised where some are left out", info.TotalRecords)
	}
	var got []string
	for _, e := range info.Endpoint {
		some, _, err := h.questions(with(t), e.Ticket)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, some...)
	}
	if diff := cmp.Diff(question(0, 3), got); diff != "" {
		t.Error(diff)
	}
}

func TestADamagedFileIsAnErrorBeforeItsFirstRow(t *testing.T) {
	h := usual(t)
	info, err := h.client.GetFlightInfo(with(t), path("maths"))
	if err != nil {
		t.Fatal(err)
	}
	_, m, err := h.c.Resolve(t.Context(), "maths")
	if err != nil {
		t.Fatal(err)
	}
	key := m.TableFiles("train")[1].Key
	data, _, err := objstore.ReadAll(t.Context(), h.bucket, key, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	data = slices.Clone(data)
	data[len(data)/2] ^= 1
	if _, err := objstore.PutBytes(t.Context(), h.bucket, key, data, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, _, err := h.questions(with(t), info.Endpoint[0].Ticket); err != nil || len(got) != 700 {
		t.Errorf("the sound file has %d rows, %v", len(got), err)
	}
	got, _, err := h.questions(with(t), info.Endpoint[1].Ticket)
	if status.Code(err) != codes.DataLoss || len(got) > 0 {
		t.Errorf("%d rows, %v", len(got), err)
	}
	if s := h.server.Stats(); s.Broken != 1 || s.Whole != 1 {
		t.Errorf("stats %+v", s)
	}
}

// A row that the view can't hold ends the stream with an error, after those
// before it.
func TestARowThatDoesNotFitIsAnErrorOfTheStream(t *testing.T) {
	h := open(t, 4)
	some := rows(0, 40, "k3")
	some[30].Images = []datasets.Image{{Digest: "d", MediaType: "image/png", Key: "k"}}
	publish(t, h.c, "b1", map[string]string{"k3": catalog.TrainingAllowed}, map[string][][]datasets.Row{"train": {some}})
	for leave, want := range map[string]codes.Code{`[]`: codes.FailedPrecondition, `["unfit"]`: codes.OK} {
		info, err := h.client.GetFlightInfo(with(t), command(`{"ref": "maths", "batch_rows": 5, "leave_out": `+leave+`}`))
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := h.questions(with(t), info.Endpoint[0].Ticket)
		if status.Code(err) != want || want == codes.OK && len(got) != 39 {
			t.Errorf("%s: %d rows, %v", leave, len(got), err)
		}
	}
}

func TestStreamsAtOnceAreBounded(t *testing.T) {
	h := open(t, 2)
	long := rows(0, 64, "k3")
	for i := range long {
		long[i].Messages[1].Content = chat.Text(strings.Repeat("x", 1<<20))
	}
	publish(t, h.c, "b1", map[string]string{"k3": catalog.TrainingAllowed}, map[string][][]datasets.Row{"train": {long}})
	info, err := h.client.GetFlightInfo(with(t), path("maths"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(with(t))
	defer cancel()
	for range 2 { // read up to the schema and then not, so that the server waits
		stream, err := h.client.DoGet(ctx, info.Endpoint[0].Ticket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if s := h.server.Stats(); s.Open != 2 {
		t.Errorf("stats %+v", s)
	}
	_, _, err = h.questions(with(t), info.Endpoint[0].Ticket)
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "--flight-streams 4") {
		t.Errorf("a third stream: %v", err)
	}
	// A reader that goes away gives its place back.
	cancel()
	for h.server.Stats().Open > 0 {
		runtime.Gosched()
	}
	if got, _, err := h.questions(with(t), info.Endpoint[0].Ticket); err != nil || len(got) != 64 {
		t.Errorf("%d rows, %v", len(got), err)
	}
	if s := h.server.Stats(); s.Refused != 1 || s.Broken != 2 || s.Whole != 1 {
		t.Errorf("stats %+v", s)
	}
}

// A stream that the server cuts is an error to its reader.
func TestStopCutsWhatIsStillBeingRead(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	long := rows(0, 64, "k3")
	for i := range long {
		long[i].Messages[1].Content = chat.Text(strings.Repeat("x", 1<<20))
	}
	publish(t, c, "b1", map[string]string{"k3": catalog.TrainingAllowed}, map[string][][]datasets.Row{"train": {long}})
	s, err := flight.New(c, flight.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	client := dial(t, l.Addr().String())
	info, err := client.GetFlightInfo(with(t), path("maths"))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := client.DoGet(with(t), info.Endpoint[0].Ticket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s.Stop(over)
	if err := <-served; err != nil {
		t.Error(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		t.Error("the reader takes the stream for whole")
	}
}

func TestAServerNeedsATokenAndBounds(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	for _, opt := range []flight.Options{{}, {Token: "short"}, {Token: token, Streams: -1}, {Token: token, Streams: 5000}} {
		if _, err := flight.New(c, opt); err == nil {
			t.Errorf("%+v is taken", opt)
		}
	}
}
