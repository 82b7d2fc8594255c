package flight

import (
	"errors"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/flight"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func FuzzDescriptor(f *testing.F) {
	for _, text := range []string{"", "{}", `{"ref": "maths"}`, `{"ref": "maths@1", "view": "messages", "batch_rows": 5, "leave_out": ["unfit"]}`, `[1]`, `{"ref": null}`, "maths"} {
		f.Add(int32(2), []byte(text), "", "")
		f.Add(int32(1), []byte(nil), text, "messages")
	}
	f.Fuzz(func(t *testing.T, kind int32, cmd []byte, a, b string) {
		d := &flight.FlightDescriptor{Cmd: cmd}
		if d.Type = flight.DescriptorPATH; kind == 2 {
			d.Type = flight.DescriptorCMD
		}
		if a != "" {
			d.Path = []string{a, b}
		}
		r, err := parse(d)
		if err != nil {
			if !errors.Is(err, errRequest) {
				t.Errorf("%v is no errRequest", err)
			}
			return
		}
		if r.Ref == "" || r.View == "" || r.Split == "" || r.BatchRows < 1 || r.BatchBytes < 1 {
			t.Errorf("%+v has been taken", r)
		}
	})
}

func FuzzTicket(f *testing.F) {
	s, err := New(catalog.Open(mem.New("b")), Options{Token: "0123456789abcdef"})
	if err != nil {
		f.Fatal(err)
	}
	good, err := s.sign(ticket{Request: Request{Ref: "maths@1"}, Part: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:40])
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := s.open(data)
		if err == nil != (string(data) == string(good)) {
			t.Errorf("%q: %v", data, err)
		}
	})
}
