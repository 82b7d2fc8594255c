//go:build readers

package readers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/arrowio/flight"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// TestPyarrowReadsOverFlight streams the messages of three data files at once.
func TestPyarrowReadsOverFlight(t *testing.T) {
	needPyarrow(t)
	dir := t.TempDir()
	c := catalog.Open(mem.New("b"))
	m := catalog.Manifest{
		Dataset: "maths", BuildID: "b1", CreatedAt: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC),
		Teachers: []catalog.ManifestTeacher{{ID: "k3", Terms: catalog.Terms{Training: catalog.TrainingAllowed}}},
	}
	withoutImages := trainRows()
	for i := range withoutImages {
		withoutImages[i].Images = nil
	}
	for i, rows := range [][]datasets.Row{withoutImages, manyRows(500), manyRows(40)} {
		ref, err := c.Stage(t.Context(), "maths", "b1", "train", "train", i, write(t, dir, string(rune('a'+i)), rows))
		if err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files, ref)
	}
	v, err := c.Publish(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}

	const token = "a token for the time of a test"
	server, err := flight.New(c, flight.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		server.Stop(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	t.Setenv("STILLHOUSE_FLIGHT", "grpc://"+l.Addr().String())
	t.Setenv("STILLHOUSE_FLIGHT_TOKEN", token)
	var got struct {
		reading
		Endpoints int               `json:"endpoints"`
		Promised  int64             `json:"promised"`
		Refused   map[string]string `json:"refused"`
	}
	python(t, &got, nil, "flight.py", v.Ref(), views.ViewMessages, "train")
	want := ofFolder(t, c, v)
	compare(t, "maths", map[string]reading{"pyarrow.flight": got.reading}, want, "pyarrow.flight")
	if got.Endpoints != 3 || got.Promised != want.Rows {
		t.Errorf("%d endpoints promise %d rows of %d", got.Endpoints, got.Promised, want.Rows)
	}
	refused := map[string]string{"no token": "FlightUnauthenticatedError", "changed ticket": "ArrowInvalid", "unknown": "ArrowKeyError", "put": "ArrowNotImplementedError"}
	if !maps.Equal(got.Refused, refused) {
		t.Errorf("refused: %v", got.Refused)
	}
}

// ofFolder is our own reading of the same view, exported as Parquet.
func ofFolder(t *testing.T, c *catalog.Catalog, v catalog.Version) reading {
	t.Helper()
	_, m, err := c.Resolve(t.Context(), v.Ref())
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir() + "/out"
	s, err := views.Export(t.Context(), c, m, views.ViewMessages, views.Folder(folder), views.Options{Version: v})
	if err != nil {
		t.Fatal(err)
	}
	var all reading
	h := sha256.New()
	for _, f := range s.Files {
		if f.Split == "" {
			continue
		}
		data, err := os.ReadFile(folder + "/" + f.Path)
		if err != nil {
			t.Fatal(err)
		}
		all.Columns = ours(t, folder+"/"+f.Path).Columns
		for row, err := range parquetio.Maps(t.Context(), bytes.NewReader(data), int64(len(data))) {
			if err != nil {
				t.Fatal(err)
			}
			feed(h, row)
			all.Rows++
		}
	}
	all.Digest = hex.EncodeToString(h.Sum(nil))
	return all
}
